"""What a PrivacyEngine may be asked to be, checked before anything is attached."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any

from torch import nn

from dpsgd_explorer.accounting import NAMES, Plan
from dpsgd_explorer.dp.clipping.adaptive import AdaptiveClipping
from dpsgd_explorer.dp.clipping.bound import ClippingSchedule
from dpsgd_explorer.dp.clipping.clipper import CLIPPING_FUNCTIONS, Clipper, equal_bounds
from dpsgd_explorer.dp.clipping.groups import (
    CLIPPING_STYLES,
    ClippingStyle,
    Partition,
    check_form,
)
from dpsgd_explorer.dp.engines.base import LOSS_REDUCTIONS, GradientEngine
from dpsgd_explorer.dp.engines.extending import ExtendingEngine
from dpsgd_explorer.dp.engines.hooks import HooksEngine
from dpsgd_explorer.dp.engines.microbatch import MicrobatchEngine
from dpsgd_explorer.dp.engines.norm_methods import CLIPPING_MODES, ClippingMode
from dpsgd_explorer.dp.engines.vmap import VmapEngine
from dpsgd_explorer.dp.noise.schedules import Schedule
from dpsgd_explorer.dp.noise.seeded import NOISES
from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.validation import one_of

ENGINES: dict[str, type[GradientEngine]] = {
    "hooks": HooksEngine,
    "extending": ExtendingEngine,
    "vmap": VmapEngine,
    "microbatch": MicrobatchEngine,
}
MOVES = {"add_or_remove_one": 1.0, "replace_one": 2.0}
SAMPLINGS = ("poisson", "unchecked")

CHOICES: dict[str, Collection[str]] = {
    "engine": ENGINES,
    "clipping_mode": CLIPPING_MODES,
    "clipping_fn": CLIPPING_FUNCTIONS,
    "clipping_style": CLIPPING_STYLES,
    "loss_reduction": LOSS_REDUCTIONS,
    "noise": NOISES,
    "sampling": SAMPLINGS,
}


@dataclass(frozen=True, kw_only=True)
class Options:
    """How gradients are clipped, noised and sampled; see PrivacyEngine."""

    engine: str
    clipping_mode: ClippingMode
    clipping_fn: str
    clipping_style: ClippingStyle
    max_grad_norm: float | Sequence[float]
    clipping_threshold: float | None
    loss_reduction: str
    noise: str
    sampling: str
    noise_schedule: Schedule | None = None
    clipping_schedule: ClippingSchedule | None = None
    augmentation_multiplicity: int = 1

    def __post_init__(self) -> None:
        """Check every field's domain."""
        check_form(self.clipping_style)
        self._check_schedules()
        for field, choices in CHOICES.items():
            if field == "clipping_style":
                continue
            asked = getattr(self, field)
            by_layer = field == "clipping_mode" and isinstance(asked, Mapping)
            for value in asked.values() if by_layer else [asked]:
                one_of(field, value, choices)
        for bound in self._bounds or [math.nan]:
            _require_positive("max_grad_norm", bound)
        if self.clipping_threshold is not None:
            _require_positive("clipping_threshold", self.clipping_threshold)
            if self.clipping_fn != "global":
                raise ConfigError(
                    "clipping_threshold",
                    "clipping_threshold is that of clipping_fn='global' only; got "
                    f"clipping_fn={self.clipping_fn!r}. Leave it out.",
                )

    def _check_schedules(self) -> None:
        _require_kind("noise_schedule", self.noise_schedule, Schedule)
        kinds = Schedule | AdaptiveClipping
        _require_kind("clipping_schedule", self.clipping_schedule, kinds)
        if isinstance(self.clipping_schedule, AdaptiveClipping) and (
            self.clipping_fn != "Abadi" or self.clipping_style != "all-layer"
        ):
            raise ConfigError(
                "clipping_schedule",
                "clipping_schedule=AdaptiveClipping() follows one norm for each sample "
                "and takes clipping_fn='Abadi' and clipping_style='all-layer'; got "
                f"{self.clipping_fn!r} and {self.clipping_style!r}.",
            )
        views = self.augmentation_multiplicity
        if not isinstance(views, int) or views < 1:
            raise ConfigError(
                "augmentation_multiplicity",
                "augmentation_multiplicity must be a whole number above 0; got "
                f"{views!r}.",
            )
        if views > 1 and self.engine == "microbatch":
            raise ConfigError(
                "augmentation_multiplicity",
                "augmentation_multiplicity must be 1 with engine='microbatch', which "
                f"runs one row at a time; got {views}. Use another engine.",
            )

    @property
    def _bounds(self) -> list[Any]:
        given = self.max_grad_norm
        return list(given) if isinstance(given, Sequence) else [given]

    @property
    def sensitivity(self) -> float:
        """The most that one record adds to the clipped sum, sqrt(sum R_b^2)."""
        return math.hypot(*self._bounds)

    def clipper(self, blocks: Partition) -> Clipper:
        """Return what clips these blocks.

        Raises:
            ConfigError: there are bounds for another number of blocks.
        """
        count, bounds = len(blocks.blocks), self._bounds
        if not isinstance(self.max_grad_norm, Sequence):
            bounds = equal_bounds(self.max_grad_norm, count)
        if len(bounds) != count:
            raise ConfigError(
                "max_grad_norm",
                f"max_grad_norm must be one number or one for each of the {count} "
                f"blocks of clipping_style; got {len(bounds)}.",
            )
        threshold = self.clipping_threshold or self.sensitivity
        return Clipper(
            self.clipping_fn,
            blocks.blocks,
            bounds,
            threshold_ratio=threshold / self.sensitivity,
        )

    def as_data(self) -> dict[str, Any]:
        """Return JSON values by name; of what changes steps or views, if it does."""
        usual = {field.name: field.default for field in fields(self)}
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            name: _plain(value)
            for name, value in values.items()
            if usual[name] is MISSING or value != usual[name]
        }


def _plain(value: Any) -> Any:
    """Return lists in the place of tuples, and what schedules say of themselves."""
    if isinstance(value, Schedule | AdaptiveClipping):
        return value.as_data()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value


def _require_kind(field: str, value: object, kind: Any) -> None:
    if value is not None and not isinstance(value, kind):
        raise ConfigError(
            field, f"{field} must be a schedule (dp.schedules); got {value!r}."
        )


def _require_positive(field: str, value: Any) -> None:
    if not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ConfigError(
            field, f"{field} must be a finite number above 0; got {value!r}."
        )


def moves_of(relation: str) -> float:
    """Return by how many clipped gradients the sums of neighbours differ.

    Raises:
        ConfigError: the relation is unknown.
    """
    one_of("relation", relation, MOVES)
    return MOVES[relation]


def make_plan(
    *,
    batch_size: int | None,
    sample_size: int | None,
    steps: int | None,
    epochs: float | None,
    noise_multiplier: float | None,
    target_epsilon: float | None,
    target_delta: float | None,
    accounting_mode: str,
) -> Plan:
    """Return the plan of a run; delta is 1/(2N) unless said otherwise.

    Raises:
        ConfigError: naming the argument at fault.
    """
    if batch_size is None or sample_size is None:
        raise ConfigError(
            "batch_size" if batch_size is None else "sample_size",
            "batch_size and sample_size must be given, or a plan that holds them.",
        )
    if is_open_ended(epochs=epochs, steps=steps, noise_multiplier=noise_multiplier):
        epochs = 1
    _require_one(epochs=epochs, steps=steps)
    _require_one(target_epsilon=target_epsilon, noise_multiplier=noise_multiplier)
    one_of("accounting_mode", accounting_mode, NAMES)
    if not 1 <= batch_size <= sample_size:
        raise ConfigError(
            "batch_size",
            f"batch_size must be between 1 and sample_size = {sample_size}; "
            f"got {batch_size}.",
        )
    delta = 1 / (2 * sample_size) if target_delta is None else target_delta
    if not 0 < delta < 1 / sample_size:
        raise ConfigError(
            "target_delta",
            f"target_delta must be above 0 and below 1/N = 1/{sample_size}; "
            f"got {delta!r}.",
        )
    return Plan.create(
        sample_size=sample_size,
        expected_batch_size=batch_size,
        steps=steps,
        epochs=epochs,
        noise_multiplier=noise_multiplier,
        target_epsilon=target_epsilon,
        delta=delta,
        accountant=accounting_mode,
    )


def is_open_ended(
    *,
    noise_multiplier: float | None,
    steps: int | None = None,
    epochs: float | None = None,
    **others: object,
) -> bool:
    """Whether noise is given and no length; ``others`` do not matter."""
    return noise_multiplier is not None and steps is None and epochs is None


def refuse_schedules(**schedules: object) -> None:
    """Raise ConfigError if a schedule is given to a run without a length."""
    for name, schedule in schedules.items():
        if isinstance(schedule, Schedule):
            raise ConfigError(
                name,
                f"{name} changes along the run, whose length is not given. Give epochs "
                "or steps.",
            )


def plan_from(plan: Plan | None, accounting_mode: str, **asked: Any) -> Plan:
    """Return the plan, or one made of what is asked.

    Raises:
        ConfigError: both are given, or what is asked is no plan.
    """
    if plan is None:
        return make_plan(accounting_mode=accounting_mode, **asked)
    _refuse_beside_plan(**asked)
    return plan


def _refuse_beside_plan(**values: object) -> None:
    for name, value in values.items():
        if value is not None:
            raise ConfigError(
                name, f"{name} must not be given beside plan, which holds it already."
            )


def require_together(**values: object) -> None:
    """Raise ConfigError if some of the values are given and some are not."""
    missing = [name for name, value in values.items() if value is None]
    if 0 < len(missing) < len(values):
        raise ConfigError(
            missing[0],
            f"give all of {' and '.join(values)} or none; {missing[0]} is missing.",
        )


def check_parameter_lists(
    module: nn.Module,
    named_params: Sequence[tuple[str, nn.Parameter]] | None,
    origin_params: Sequence[str] | None,
) -> None:
    """Check what users of FastDP pass to choose parameters.

    ``named_params`` must be all trainable parameters.  ``origin_params`` must be parts
    of parameter names; autograd is never asked for a parameter's gradient here, so
    there is nothing that it could save.

    Raises:
        ConfigError: naming the argument at fault.
    """
    names = {id(p): name for name, p in module.named_parameters()}
    trainable = {key: names[key] for key in _trainable(module)}
    if named_params is not None:
        _check_same(trainable, {id(p): name for name, p in named_params})
    for origin in origin_params or ():
        if not any(origin in name for name in names.values()):
            raise ConfigError(
                "origin_params",
                f"origin_params must be parts of parameter names; got {origin!r}, and "
                f"there are {', '.join(names.values())}.",
            )


def _trainable(module: nn.Module) -> list[int]:
    return [id(p) for p in module.parameters() if p.requires_grad]


def _check_same(trainable: Mapping[int, str], listed: Mapping[int, str]) -> None:
    odd = [name for key, name in trainable.items() if key not in listed]
    odd += [name for key, name in listed.items() if key not in trainable]
    if odd:
        raise ConfigError(
            "named_params",
            "named_params must list all trainable parameters of the module and nothing "
            f"else; at odds: {', '.join(odd)}. Freeze what is not to be trained with "
            "requires_grad_(False).",
        )


def check_grad_scaler(scaler: object, engine: str) -> None:
    """Raise ConfigError if a scaler of losses is given that nothing would heed."""
    if scaler is not None and not ENGINES[engine].releases_in_backward:
        raise ConfigError(
            "grad_scaler",
            "grad_scaler must be given with engine='extending', where gradients are "
            f"there before the step; got engine={engine!r}.",
        )


def check_physical_batch_size(size: int | None, sampling: str) -> None:
    """Raise ConfigError if batches cannot be split into parts of this size."""
    if size is None:
        return
    if not isinstance(size, int) or size < 1:
        raise ConfigError(
            "physical_batch_size",
            f"physical_batch_size must be a whole number above 0; got {size!r}.",
        )
    if sampling != "poisson":
        raise ConfigError(
            "physical_batch_size",
            f"physical_batch_size splits the batches of poisson_loader; got {size} "
            f"with sampling={sampling!r}. Split the batch and call backward once for "
            "each part, then step once.",
        )


def _require_one(**values: object) -> None:
    given = [name for name, value in values.items() if value is not None]
    if len(given) != 1:
        came = " and ".join(given) or "neither"
        raise ConfigError(
            next(iter(values)),
            f"give exactly one of {' and '.join(values)}; got {came}.",
        )

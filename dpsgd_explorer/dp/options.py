"""What a PrivacyEngine may be asked to be, checked before anything is attached."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass

from torch import nn

from dpsgd_explorer.accounting import ACCOUNTANTS, Plan
from dpsgd_explorer.dp.book_keeping import CLIPPING_MODES, BookKeeping
from dpsgd_explorer.dp.clipping import CLIPPING_FUNCTIONS, CLIPPING_STYLES
from dpsgd_explorer.dp.mechanism import LOSS_REDUCTIONS, Mechanism
from dpsgd_explorer.dp.microbatch import MicroBatch
from dpsgd_explorer.dp.noise import NOISES
from dpsgd_explorer.errors import ConfigError

ENGINES: dict[str, type[Mechanism]] = {"hooks": BookKeeping, "microbatch": MicroBatch}
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
    clipping_mode: str
    clipping_fn: str
    clipping_style: str
    max_grad_norm: float
    loss_reduction: str
    noise: str
    sampling: str

    def __post_init__(self) -> None:
        """Check every field's domain."""
        for field, choices in CHOICES.items():
            _require_choice(field, getattr(self, field), choices)
        if not 0 < self.max_grad_norm < math.inf:
            raise ConfigError(
                "max_grad_norm",
                "max_grad_norm must be a finite number above 0; "
                f"got {self.max_grad_norm!r}.",
            )

    def as_data(self) -> dict[str, str | float]:
        """Return JSON values by name."""
        return asdict(self)


def _require_choice(field: str, value: object, choices: Collection[str]) -> None:
    if value not in choices:
        known = ", ".join(choices)
        raise ConfigError(field, f"{field} must be one of {known}; got {value!r}.")


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
    _require_one(epochs=epochs, steps=steps)
    _require_one(target_epsilon=target_epsilon, noise_multiplier=noise_multiplier)
    _require_choice("accounting_mode", accounting_mode, ACCOUNTANTS)
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


def refuse_beside_plan(**values: object) -> None:
    """Raise ConfigError if a value is given that the plan holds already."""
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


def refuse_physical_batch_size(physical_batch_size: int | None) -> None:
    """Raise ConfigError if asked to split batches, which is not there yet."""
    if physical_batch_size is not None:
        raise ConfigError(
            "physical_batch_size",
            "physical_batch_size must be None for now; got "
            f"{physical_batch_size!r}. Split the batch and call backward once for each "
            "part, then step once.",
        )


def _require_one(**values: object) -> None:
    given = [name for name, value in values.items() if value is not None]
    if len(given) != 1:
        came = " and ".join(given) or "neither"
        raise ConfigError(
            next(iter(values)),
            f"give exactly one of {' and '.join(values)}; got {came}.",
        )

"""The arguments of a run: their meaning, their domains and their error messages.

``make_private`` takes them in groups: ``Clipping``, ``Noise``, ``Execution``,
``Audit``.  ``PrivacyEngine`` takes the same arguments under FastDP's flat names, which
messages, receipts and saved states use.  Both create one ``Config``, with the plan that
the sizes describe.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple, TypeVar, get_args

import torch.distributed as dist
from torch import nn
from torch.amp import GradScaler

from dpsgd_explorer.accounting import NAMES, NeighboringRelation, Plan
from dpsgd_explorer.accounting.correlated.strategies import ToeplitzStrategy
from dpsgd_explorer.accounting.sampling_schemes import FIXED_SLOTS
from dpsgd_explorer.accounting.schedules import Schedule
from dpsgd_explorer.dp import choices
from dpsgd_explorer.dp.canaries.canaries import checked_count
from dpsgd_explorer.dp.clipping.adaptive import AdaptiveClipping
from dpsgd_explorer.dp.clipping.bound import ClippingSchedule
from dpsgd_explorer.dp.clipping.clipper import CLIPPING_FUNCTIONS, Clipper, equal_bounds
from dpsgd_explorer.dp.clipping.groups import (
    CLIPPING_STYLES,
    ClippingGroups,
    ClippingStyle,
    check_form,
)
from dpsgd_explorer.dp.distributed.ranks import ALONE, Ranks, warn_without_group
from dpsgd_explorer.dp.engines.base import LOSS_REDUCTIONS, GradientEngine
from dpsgd_explorer.dp.engines.extending import ExtendingEngine
from dpsgd_explorer.dp.engines.hooks import HooksEngine
from dpsgd_explorer.dp.engines.microbatch import MicrobatchEngine
from dpsgd_explorer.dp.engines.norm_choice import CLIPPING_MODES, ClippingMode
from dpsgd_explorer.dp.engines.vmap import VmapEngine
from dpsgd_explorer.dp.noise.seeded import NOISES
from dpsgd_explorer.dp.sampling.partition import PARTITIONS, Strided
from dpsgd_explorer.dp.sampling.users import Users
from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.validation import finite, one_of, positive, shown, whole

#: Maximum number of records.  Whole numbers up to 2^53 are exact in a float.
MAX_RECORDS = 2**53
#: Maximum number of views per sample, which is more than fits into memory.
MAX_VIEWS = 2**20

ENGINES: dict[str, type[GradientEngine]] = {
    "hooks": HooksEngine,
    "extending": ExtendingEngine,
    "vmap": VmapEngine,
    "microbatch": MicrobatchEngine,
}

#: {argument of PrivacyEngine: its allowed strings}; ``choices`` has them as types.
CHOICES: dict[str, Collection[str]] = {
    "engine": ENGINES,
    "clipping_mode": CLIPPING_MODES,
    "clipping_fn": CLIPPING_FUNCTIONS,
    "clipping_style": CLIPPING_STYLES,
    "loss_reduction": LOSS_REDUCTIONS,
    "noise": NOISES,
    "sampling": get_args(choices.Sampling),
}


@dataclass(frozen=True, kw_only=True)
class Clipping:
    """How the gradient of a sample is clipped.

    Attributes:
        max_grad_norm: Bound C, the maximum L2 norm of a sample's gradient; the clipping
            groups share it equally (C / sqrt(groups) each).  Or a list with the bound
            of each group.
        fn: Factor by which a gradient of norm n is multiplied.  "automatic": C / (n +
            0.01); "Abadi": min(1, C / n); "global": C / Z if n is at most Z, else 0.
        style: Parameters that form a clipping group and share a norm.  "all-layer": all
            parameters; "layer-wise": the parameters of each layer; "param-wise": each
            parameter separately.  Or a list of names of the layers at which a clipping
            group begins; or the groups, as lists of names.
        threshold: Z of ``fn="global"``; if None, ``max_grad_norm``.
        schedule: Change of the bound during the run: a schedule of ``dp.schedules``, or
            ``AdaptiveClipping``, which follows a quantile of the norms.  If None, the
            bound is constant.

    Raises:
        ConfigError: a value is outside its domain.

    Source: Bu et al. (2022), arXiv:2206.07136 ("automatic"); Abadi et al. (2016),
    arXiv:1607.00133, Algorithm 1 ("Abadi"); Bu et al. (2021), arXiv:2106.07830, section
    4 ("global").

    Example:
        >>> from dpsgd_explorer import dp
        >>> dp.Clipping(max_grad_norm=0.5, fn="Abadi", style="layer-wise").fn
        'Abadi'
    """

    max_grad_norm: float | Sequence[float] = 1.0
    fn: choices.ClippingFn = "automatic"
    style: choices.ClippingStyle = "all-layer"
    threshold: float | None = None
    schedule: ClippingSchedule | None = None

    def __post_init__(self) -> None:
        """Checks every value, and converts numbers of numpy and torch to Python's."""
        check_form(self.style)
        object.__setattr__(self, "max_grad_norm", _bounds(self.max_grad_norm))
        if self.threshold is not None:
            threshold = positive("clipping_threshold", self.threshold)
            object.__setattr__(self, "threshold", threshold)
        one_of("clipping_fn", self.fn, CLIPPING_FUNCTIONS)
        kinds = Schedule | AdaptiveClipping
        _require_kind("clipping_schedule", self.schedule, kinds)
        is_adaptive = isinstance(self.schedule, AdaptiveClipping)
        if is_adaptive and (self.fn != "Abadi" or self.style != "all-layer"):
            raise ConfigError(
                "clipping_schedule",
                "clipping_schedule=AdaptiveClipping() needs one norm per sample, so "
                "clipping_fn must be 'Abadi' and clipping_style 'all-layer', got "
                f"{self.fn!r} and {self.style!r}.",
            )
        if self.threshold is not None and self.fn != "global":
            raise ConfigError(
                "clipping_threshold",
                "clipping_threshold must be left out unless clipping_fn is 'global', "
                f"got clipping_fn={self.fn!r}.",
            )


@dataclass(frozen=True, kw_only=True)
class Noise:
    """How the noise of a step is drawn.

    The standard deviation of the noise is ``noise_multiplier`` times the clipping
    bound; both are other arguments of ``make_private``.

    Attributes:
        kind: "secure": noise and batches are unpredictable and cannot be repeated.
            "seeded": noise and batches repeat with the seed, and anyone who knows the
            seed can remove the noise.
        seed: Seed of seeded noise and of its batches, a whole number; if None, a random
            one.
        schedule: Factor of the noise multiplier at each step, a schedule of
            ``dp.schedules``; the accountant counts each step with its noise.  If None,
            the noise is constant.

    Raises:
        ConfigError: a value is outside its domain.

    Source: Abadi et al. (2016), arXiv:1607.00133, Algorithm 1.

    Example:
        >>> from dpsgd_explorer import dp
        >>> dp.Noise(kind="seeded", seed=1)
        Noise(kind='seeded', seed=1, schedule=None)
    """

    kind: choices.Noise = "secure"
    seed: int | None = None
    schedule: Schedule | None = None

    def __post_init__(self) -> None:
        """Checks the values that do not depend on the plan."""
        one_of("noise", self.kind, NOISES)
        _require_kind("noise_schedule", self.schedule, Schedule)


@dataclass(frozen=True, kw_only=True)
class Execution:
    """How a step is computed: time and memory, not the private mechanism or epsilon.

    Attributes:
        engine: How per-sample gradients are computed.  "hooks": from the inputs of
            layers and the gradients of their outputs; "extending": like "hooks", and
            private gradients are in ``parameter.grad`` at the end of backward;
            "vmap": by ``torch.func``; "microbatch": one sample at a time.
        clipping_mode: How the norms of per-sample gradients are computed; the values do
            not depend on it.  "MixOpt": by the cheaper method for each shape, with
            gradients stored for the sum; "MixGhostClip": by the cheaper method, with
            gradients computed again for the sum; "ghost": without gradients;
            "instantiate": from gradients.  Or a dictionary {layer's name: mode}.
        physical_batch_size: Maximum number of samples in memory; the loader yields a
            larger batch in several parts.  The training loop does not change:
            ``optimizer.step()`` has no effect before the last part.  If None, each
            batch is one part.
        num_workers: Number of processes that fetch records ahead; 0 for none.
        grad_scaler: A ``torch.amp.GradScaler``, which scales losses against underflow
            in half precision; the scale is removed before clipping.  Needs
            ``engine="extending"``, since a scaler expects gradients before the step.
        group: Process group of ``torch.distributed`` whose W ranks train the model
            together.  Each batch is divided among the ranks, and noise is added once,
            to the sum over all ranks.  Arguments and model must be equal on all ranks,
            and every rank must make every step.
        partition: Records of each rank of the group.  "strided": each rank has the
            whole data set, and processes every W-th record of each batch.  "local":
            each rank has records that no other rank has, possibly none, and samples
            from them; ``sample_size`` and ``batch_size`` are totals over all ranks.

    Raises:
        ConfigError: a value is outside its domain.

    Source: Bu et al. (2022), arXiv:2210.00038 (the modes).

    Example:
        >>> from dpsgd_explorer import dp
        >>> execution = dp.Execution(engine="vmap", physical_batch_size=64)
        >>> execution.engine, execution.physical_batch_size
        ('vmap', 64)
    """

    engine: choices.Engine = "hooks"
    clipping_mode: choices.ClippingMode = "MixOpt"
    physical_batch_size: int | None = None
    num_workers: int = 0
    grad_scaler: GradScaler | None = None
    group: dist.ProcessGroup | Ranks = ALONE
    partition: choices.Partition = "strided"

    def __post_init__(self) -> None:
        """Checks the values that do not depend on the model."""
        one_of("engine", self.engine, ENGINES)
        mode = self.clipping_mode
        for value in mode.values() if isinstance(mode, Mapping) else [mode]:
            one_of("clipping_mode", value, CLIPPING_MODES)
        one_of("partition", self.partition, list(PARTITIONS))
        releases_in_backward = ENGINES[self.engine].releases_in_backward
        if self.grad_scaler is not None and not releases_in_backward:
            raise ConfigError(
                "grad_scaler",
                "grad_scaler must be given with engine='extending', because only that "
                f"engine has gradients before the step, got engine={self.engine!r}.",
            )
        size, name = self.physical_batch_size, "physical_batch_size"
        if size is not None:
            object.__setattr__(self, name, whole(name, size, 1, MAX_RECORDS))


@dataclass(frozen=True, kw_only=True)
class Audit:
    """Canaries that measure a lower bound on epsilon while the model trains.

    Attributes:
        canaries: Number of canaries, artificial records that take part in every step;
            0 for no audit.  They change neither the training nor epsilon.
        relation: Difference between the two cases that an attacker distinguishes.
            "add_or_remove_one": a canary is present or absent.  "replace_one": a canary
            is present, or another one in its place.  ``audit()`` compares the measured
            bound with the epsilon for this relation.

    Raises:
        ConfigError: ``relation`` is not one of the two strings.

    Example:
        >>> from dpsgd_explorer import dp
        >>> dp.Audit(canaries=2000)
        Audit(canaries=2000, relation='add_or_remove_one')
    """

    canaries: int = 0
    relation: choices.AuditRelation = "add_or_remove_one"

    def __post_init__(self) -> None:
        """Checks the relation; the number of canaries depends on the plan."""
        one_of("audit_relation", self.relation, list(NeighboringRelation))


Group = TypeVar("Group", Clipping, Noise, Execution, Audit)


def group(name: str, given: Group | None, kind: type[Group]) -> Group:
    """Returns the given options, or the default options for None.

    Args:
        name: Name of the argument of ``make_private``.
        given: The value of the argument.
        kind: The class of the options.

    Raises:
        ConfigError: the value is not an instance of the class.
    """
    if given is None:
        return kind()
    if not isinstance(given, kind):
        raise ConfigError(
            name, f"{name} must be a dp.{kind.__name__}(...), got {given!r}."
        )
    return given


@dataclass(frozen=True, kw_only=True)
class Options:
    """How gradients are clipped, noised and sampled, under PrivacyEngine's names."""

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
    unit: str = "record"
    records_per_user: int | None = None

    def __post_init__(self) -> None:
        """Checks the values that are not in Clipping, Noise, Execution or Audit."""
        one_of("loss_reduction", self.loss_reduction, LOSS_REDUCTIONS)
        one_of("sampling", self.sampling, CHOICES["sampling"])
        name = "augmentation_multiplicity"
        views = whole(name, self.augmentation_multiplicity, 1, MAX_VIEWS)
        object.__setattr__(self, name, views)
        if views > 1 and self.engine == "microbatch":
            raise ConfigError(
                name,
                "augmentation_multiplicity must be 1 with engine='microbatch', which "
                f"runs one row at a time, got {views}. Use another engine.",
            )

    @property
    def _bounds(self) -> list[Any]:
        bounds = self.max_grad_norm
        return list(bounds) if isinstance(bounds, Sequence) else [bounds]

    @cached_property
    def sensitivity(self) -> float:
        """Maximum L2 norm of a record's part of the clipped sum: sqrt(sum of C_g^2)."""
        return math.hypot(*self._bounds)

    def clipper(self, clipping_groups: ClippingGroups) -> Clipper:
        """Returns the clipper of the clipping groups.

        Raises:
            ConfigError: the number of bounds in max_grad_norm is not the number of
                groups.
        """
        groups = clipping_groups.groups
        count, bounds = len(groups), self._bounds
        if not isinstance(self.max_grad_norm, Sequence):
            bounds = equal_bounds(self.max_grad_norm, count)
        if len(bounds) != count:
            raise ConfigError(
                "max_grad_norm",
                "max_grad_norm must be one number, or one number for each of the "
                f"{count} groups of clipping_style, got {len(bounds)} numbers.",
            )
        return Clipper(
            self.clipping_fn, groups, bounds, threshold_ratio=self._threshold_ratio
        )

    def whole_clipper(self, unit: str) -> Clipper:
        """Returns a clipper with a single group, at the bound of the whole gradient.

        Args:
            unit: The unit of the group.
        """
        bounds = [self.sensitivity]
        return Clipper(
            self.clipping_fn, [[unit]], bounds, threshold_ratio=self._threshold_ratio
        )

    @property
    def _threshold_ratio(self) -> float:
        return (self.clipping_threshold or self.sensitivity) / self.sensitivity

    def as_data(self) -> dict[str, Any]:
        """Returns the options as JSON values by name, without defaults."""
        defaults = {field.name: field.default for field in fields(self)}
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            name: _plain(value)
            for name, value in values.items()
            if defaults[name] is MISSING or value != defaults[name]
        }


class Sizes(NamedTuple):
    """The arguments of PrivacyEngine on sizes, length, noise and delta of a run."""

    batch_size: int | None = None
    sample_size: int | None = None
    steps: int | None = None
    epochs: float | None = None
    noise_multiplier: float | None = None
    target_epsilon: float | None = None
    target_delta: float | None = None

    @property
    def open_ended(self) -> bool:
        """True if the noise is given, but not the length of the run."""
        no_length = self.steps is None and self.epochs is None
        return no_length and self.noise_multiplier is not None

    def plan(
        self,
        plan: Plan | None,
        accounting_mode: str,
        schedule: Schedule | None,
        sampling: str,
        correlation: ToeplitzStrategy | None,
    ) -> Plan:
        """Returns the plan of the run.

        Args:
            plan: A plan that the user gave in place of all sizes.
            accounting_mode: A key of ACCOUNTANTS, or "all".
            schedule: Schedule of the noise.  A target epsilon is the epsilon of all
                steps with their scheduled noise.
            sampling: A key of CHOICES["sampling"].
            correlation: Strategy of correlated noise, or None.

        Raises:
            ConfigError: a size is given together with a plan, is missing, or is outside
                its domain.
        """
        assumed = "poisson" if sampling == "unchecked" else sampling
        if plan is None:
            return self._created(accounting_mode, schedule, assumed, correlation)
        self._reject_any(noise_correlation=correlation)
        if plan.sampling != assumed:
            raise ConfigError(
                "sampling",
                f"sampling must be that of the plan, {plan.sampling!r}, got "
                f"{sampling!r}.",
            )
        if schedule is None or schedule == plan.noise_schedule:
            return plan
        if plan.noise_schedule is not None:
            raise ConfigError(
                "noise_schedule",
                "noise_schedule must not be given together with a plan that has one, "
                f"got {schedule} and {plan.noise_schedule}. Leave noise_schedule out.",
            )
        return dataclasses.replace(plan, noise_schedule=schedule)

    def _reject_any(self, **others: object) -> None:
        for name, value in {**self._asdict(), **others}.items():
            if value is not None:
                raise ConfigError(
                    name,
                    f"{name} must not be given together with plan, which already "
                    f"contains it. Leave {name} out.",
                )

    def _created(
        self,
        accounting_mode: str,
        schedule: Schedule | None,
        sampling: str,
        correlation: ToeplitzStrategy | None,
    ) -> Plan:
        if self.batch_size is None or self.sample_size is None:
            raise ConfigError(
                "batch_size" if self.batch_size is None else "sample_size",
                "batch_size and sample_size must be given, or a plan that contains "
                "them.",
            )
        sample_size = whole("sample_size", self.sample_size, 1, MAX_RECORDS)
        batch_size = whole("batch_size", self.batch_size, 1, MAX_RECORDS)
        epochs = 1 if self.open_ended else self.epochs
        if self.open_ended and correlation is not None:
            raise ConfigError(
                "noise_correlation",
                "noise_correlation needs a run whose length is given. Pass steps, the "
                "steps of the strategy.",
            )
        one_of("accounting_mode", accounting_mode, NAMES)
        if batch_size > sample_size:
            raise ConfigError(
                "batch_size",
                f"batch_size must be from 1 to sample_size = {sample_size}, got "
                f"{batch_size}.",
            )
        return Plan.create(
            sample_size=sample_size,
            expected_batch_size=batch_size,
            steps=self.steps,
            epochs=epochs,
            noise_multiplier=self.noise_multiplier,
            target_epsilon=self.target_epsilon,
            delta=self._delta(sample_size),
            accountant=accounting_mode,
            noise_schedule=schedule,
            sampling=sampling,
            noise_correlation=correlation,
        )

    def _delta(self, sample_size: int) -> float:
        """Returns the given delta; without one, 1/(2N)."""
        if self.target_delta is None:
            return 1 / (2 * sample_size)
        delta = finite("target_delta", self.target_delta)
        if not 0 < delta < 1 / sample_size:
            raise ConfigError(
                "target_delta",
                f"target_delta must be above 0 and below 1/N = 1/{sample_size}, "
                f"got {shown(self.target_delta)}.",
            )
        return delta


@dataclass(frozen=True, kw_only=True)
class Config:
    """All arguments of a run; an instance that exists is valid.

    Attributes:
        plan: Sizes, steps, noise multiplier, delta and accountant.
        options: How gradients are clipped, noised and sampled.
        open_ended: If True, the run has no length, and the plan covers one epoch.
        steps_are_final: If True, a step after the last step of the plan is an error.
        seed: Seed of seeded noise; if None, a random seed is drawn.
        execution: How a step is computed.
        canaries: Number of canaries.
        relation: Difference between the two cases that an attacker distinguishes.
        ranks: The processes that train together.
        spread: Class of the partition of the records among the ranks.
        users: The owner of each record; None if the samples are records.
    """

    plan: Plan
    options: Options
    open_ended: bool
    steps_are_final: bool
    seed: int | None
    execution: Execution
    canaries: int
    relation: NeighboringRelation
    ranks: Ranks
    spread: type[Strided]
    users: Users | None = None

    @classmethod
    def of(
        cls,
        sizes: Sizes,
        *,
        clipping: Clipping,
        noise: Noise,
        execution: Execution,
        audit: Audit,
        plan: Plan | None = None,
        accounting_mode: str = "exact",
        sampling: str = "poisson",
        loss_reduction: str = "mean",
        augmentation_multiplicity: int = 1,
        users: Users | None = None,
        noise_correlation: ToeplitzStrategy | None = None,
    ) -> Config:
        """Returns the arguments, checked against each other.

        Args:
            sizes: Sizes, length, noise and delta of the user.
            clipping: How gradients are clipped.
            noise: How noise is drawn.
            execution: How a step is computed.
            audit: Canaries.
            plan: A plan that the user gave in place of the sizes.
            accounting_mode: A key of ACCOUNTANTS, or "all".
            sampling: A key of CHOICES["sampling"].
            loss_reduction: A key of LOSS_REDUCTIONS.
            augmentation_multiplicity: Views per sample.
            users: The owner of each record; None if the samples are records.
            noise_correlation: Strategy of correlated noise, or None.

        Raises:
            ConfigError: naming the argument at fault.
        """
        options = Options(
            engine=execution.engine,
            clipping_mode=execution.clipping_mode,
            clipping_fn=clipping.fn,
            clipping_style=clipping.style,
            max_grad_norm=clipping.max_grad_norm,
            clipping_threshold=clipping.threshold,
            clipping_schedule=clipping.schedule,
            noise=noise.kind,
            noise_schedule=noise.schedule,
            sampling=sampling,
            loss_reduction=loss_reduction,
            augmentation_multiplicity=augmentation_multiplicity,
            unit="record" if users is None else "user",
            records_per_user=None if users is None else users.records_per_user,
        )
        if users is not None:
            _check_users(options, execution, users)
            sizes = _sizes_of_users(sizes, plan, users)
        _reject_parts(execution.physical_batch_size, sampling)
        given = execution.group
        ranks = given if isinstance(given, Ranks) else Ranks.of(given)
        if ranks is ALONE:
            warn_without_group()
        schedule = noise.schedule
        plan = sizes.plan(plan, accounting_mode, schedule, sampling, noise_correlation)
        options = dataclasses.replace(options, noise_schedule=plan.noise_schedule)
        if plan.noise_correlation is not None or plan.sampling == FIXED_SLOTS:
            _check_correlated(options, audit, users, ranks)
        if sizes.open_ended:
            _reject_schedules(options)
        config = cls(
            plan=plan,
            options=options,
            open_ended=sizes.open_ended,
            steps_are_final=sizes.noise_multiplier is None,
            seed=noise.seed,
            execution=execution,
            canaries=checked_count(
                audit.canaries, is_private=plan.is_private, sampling=sampling
            ),
            relation=NeighboringRelation(audit.relation),
            ranks=ranks,
            spread=PARTITIONS[execution.partition],
            users=users,
        )
        config._require_same()
        return config

    def _require_same(self) -> None:
        """Raises ConfigError if another rank has other arguments."""
        of_plan = {f"plan.{name}": value for name, value in vars(self.plan).items()}
        more = {
            "audit": self.canaries,
            "audit_relation": str(self.relation),
            "partition": self.execution.partition,
            "user_ids": None if self.users is None else self.users.code,
        }
        self.ranks.require_equal({**of_plan, **self.options.as_data(), **more})


def check_module(module: object) -> None:
    """Raises ConfigError unless the argument is an instance of nn.Module."""
    if not isinstance(module, nn.Module):
        is_class = isinstance(module, type)
        kind = f"the class {module.__name__}" if is_class else type(module).__name__  # type: ignore[attr-defined]
        remedy = " Create an instance of it first." if is_class else ""
        raise ConfigError(
            "module", f"module must be a torch.nn.Module, got {kind}.{remedy}"
        )


def check_after(after: object, kind: type) -> None:
    """Raises ConfigError unless the earlier phase is an engine or None."""
    if after is not None and not isinstance(after, kind):
        raise ConfigError(
            "after", f"after must be the engine of an earlier phase, got {after!r}."
        )


def check_parameter_lists(
    module: nn.Module,
    named_params: Sequence[tuple[str, nn.Parameter]] | None,
    origin_params: Sequence[str] | None,
) -> None:
    """Checks two arguments that exist for users of FastDP.

    Args:
        module: The model.
        named_params: (name, parameter) of all trainable parameters.
        origin_params: Parts of parameter names, which save time in FastDP's backward.
            They have no effect here, since autograd computes no parameter gradients.

    Raises:
        ConfigError: an argument is wrong; ``field`` of the error is its name.
    """
    names = {id(p): name for name, p in module.named_parameters()}
    trainable = {id(p): names[id(p)] for p in module.parameters() if p.requires_grad}
    if named_params is not None:
        _check_same(trainable, {id(p): name for name, p in named_params})
    for origin in origin_params or ():
        if not any(origin in name for name in names.values()):
            raise ConfigError(
                "origin_params",
                f"origin_params must contain parts of parameter names, got {origin!r}. "
                f"The model has {', '.join(names.values())}.",
            )


def check_example(example_inputs: object, loss_fn: object) -> None:
    """Raises ConfigError unless the example is a pair and the loss is a function."""
    if loss_fn is not None and (not callable(loss_fn) or isinstance(loss_fn, type)):
        remedy = (
            f"Pass an instance, loss_fn={loss_fn.__name__}()."
            if isinstance(loss_fn, type)
            else "Pass for example torch.nn.functional.mse_loss."
        )
        raise ConfigError(
            "loss_fn",
            "loss_fn must be a function of outputs and targets, got "
            f"{loss_fn!r:.100}. {remedy}",
        )
    if not isinstance(example_inputs, tuple | list) or len(example_inputs) != 2:
        kind = type(example_inputs).__name__
        if isinstance(example_inputs, tuple | list):
            kind += f" of {len(example_inputs)}"
        raise ConfigError(
            "example_inputs",
            "example_inputs must be a pair (inputs, targets), given together with "
            f"loss_fn, got {kind}.",
        )
    if loss_fn is None:
        raise ConfigError(
            "loss_fn",
            "loss_fn must be a function of outputs and targets, given together with "
            "example_inputs, got None.",
        )


def _bounds(bounds: Any) -> Any:
    """Returns a bound or a list of bounds as Python numbers."""
    if getattr(bounds, "ndim", 0) == 1:  # an array or a tensor
        bounds = bounds.tolist()
    if isinstance(bounds, Sequence) and not isinstance(bounds, str):
        return [positive("max_grad_norm", bound) for bound in bounds or [math.nan]]
    return positive("max_grad_norm", bounds)


def _reject_parts(size: int | None, sampling: str) -> None:
    if size is not None and sampling == "unchecked":
        raise ConfigError(
            "physical_batch_size",
            f"physical_batch_size must not be given with sampling={sampling!r}, got "
            f"{size}: it splits batches of the engine's loader. Split the batch and "
            "call backward once for each part, then step once.",
        )


def _check_users(options: Options, execution: Execution, users: Users) -> None:
    """Raises ConfigError if an option does not work with user_ids."""
    users.check_part_size(execution.physical_batch_size)
    required = {
        "sampling": ("poisson", options.sampling),
        "augmentation_multiplicity": (1, options.augmentation_multiplicity),
        "partition": ("strided", execution.partition),
    }
    for name, (value, given) in required.items():
        if given != value:
            raise ConfigError(
                name, f"{name} must be {value!r} with user_ids, got {given!r}."
            )


def _check_correlated(
    options: Options, audit: Audit, users: Users | None, ranks: Ranks
) -> None:
    """Raises ConfigError if an option does not work with correlated noise or slots."""
    refused = {
        "sampling": (options.sampling == "unchecked", "the groups of its own loader"),
        "clipping_schedule": (options.clipping_schedule is not None, "one bound"),
        "user_ids": (users is not None, "groups of records"),
        "audit": (audit.canaries > 0, "scores whose noise is correlated too"),
        "group": (not ranks.is_alone, "one process, which holds the past noise"),
    }
    subject = "noise_correlation"
    if options.sampling == FIXED_SLOTS:
        subject = f"sampling={FIXED_SLOTS!r}"
    for name, (is_set, needed) in refused.items():
        if is_set:
            raise ConfigError(
                name,
                f"{name} must be left out with {subject}, which needs {needed}.",
            )


def _sizes_of_users(sizes: Sizes, plan: Plan | None, users: Users) -> Sizes:
    """Returns the sizes with the number of users as the sample size.

    Raises:
        ConfigError: another sample size was given.
    """
    given = sizes.sample_size if plan is None else plan.sample_size
    if given is not None and given != users.count:
        raise ConfigError(
            "sample_size",
            "sample_size must be the number of users with user_ids, "
            f"{users.count}, got {shown(given)}.",
        )
    return sizes if plan is not None else sizes._replace(sample_size=users.count)


def _reject_schedules(options: Options) -> None:
    """Raises ConfigError if a schedule is given to a run without a length."""
    for name in ("noise_schedule", "clipping_schedule"):
        if isinstance(getattr(options, name), Schedule):
            raise ConfigError(
                name,
                f"{name} changes during the run, so the length of the run must be "
                "given. Pass epochs or steps.",
            )


def _check_same(trainable: Mapping[int, str], listed: Mapping[int, str]) -> None:
    differences = [name for key, name in trainable.items() if key not in listed]
    differences += [name for key, name in listed.items() if key not in trainable]
    if differences:
        raise ConfigError(
            "named_params",
            "named_params must list all trainable parameters of the module and no "
            f"others; the differences are {', '.join(differences)}. Freeze parameters "
            "that you do not want to train with requires_grad_(False).",
        )


def _require_kind(field: str, value: object, kind: Any) -> None:
    if value is not None and not isinstance(value, kind):
        raise ConfigError(
            field, f"{field} must be a schedule (dp.schedules), got {value!r}."
        )


def _plain(value: Any) -> Any:
    """Returns the JSON value of an option."""
    if isinstance(value, Schedule | AdaptiveClipping):
        return value.as_data()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return value

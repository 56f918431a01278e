"""The options of a PrivacyEngine, checked before anything is attached."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import cached_property
from typing import Any

from dpsgd_explorer.accounting.schedules import Schedule
from dpsgd_explorer.dp.clipping.adaptive import AdaptiveClipping
from dpsgd_explorer.dp.clipping.bound import ClippingSchedule
from dpsgd_explorer.dp.clipping.clipper import CLIPPING_FUNCTIONS, Clipper, equal_bounds
from dpsgd_explorer.dp.clipping.groups import (
    CLIPPING_STYLES,
    ClippingGroups,
    ClippingStyle,
    check_form,
)
from dpsgd_explorer.dp.engines.base import LOSS_REDUCTIONS, GradientEngine
from dpsgd_explorer.dp.engines.extending import ExtendingEngine
from dpsgd_explorer.dp.engines.hooks import HooksEngine
from dpsgd_explorer.dp.engines.microbatch import MicrobatchEngine
from dpsgd_explorer.dp.engines.norm_choice import CLIPPING_MODES, ClippingMode
from dpsgd_explorer.dp.engines.vmap import VmapEngine
from dpsgd_explorer.dp.noise.seeded import NOISES
from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.validation import one_of, positive, whole

MAX_VIEWS = 2**20  # views of a sample; more than fit into memory

ENGINES: dict[str, type[GradientEngine]] = {
    "hooks": HooksEngine,
    "extending": ExtendingEngine,
    "vmap": VmapEngine,
    "microbatch": MicrobatchEngine,
}

CHOICES: dict[str, Collection[str]] = {
    "engine": ENGINES,
    "clipping_mode": CLIPPING_MODES,
    "clipping_fn": CLIPPING_FUNCTIONS,
    "clipping_style": CLIPPING_STYLES,
    "loss_reduction": LOSS_REDUCTIONS,
    "noise": NOISES,
    "sampling": ("poisson", "unchecked"),
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
        self._take_plain_numbers()
        self._check_schedules()
        for field, choices in CHOICES.items():
            if field == "clipping_style":
                continue
            option = getattr(self, field)
            by_layer = field == "clipping_mode" and isinstance(option, Mapping)
            for value in option.values() if by_layer else [option]:
                one_of(field, value, choices)
        if self.clipping_threshold is not None and self.clipping_fn != "global":
            raise ConfigError(
                "clipping_threshold",
                "clipping_threshold must be left out unless clipping_fn is 'global', "
                f"got clipping_fn={self.clipping_fn!r}.",
            )

    def _take_plain_numbers(self) -> None:
        """Store numbers of numpy and torch as Python's own."""
        bounds: Any = self.max_grad_norm
        if getattr(bounds, "ndim", 0) == 1:  # an array or a tensor
            bounds = bounds.tolist()
        plain: dict[str, Any] = {
            "augmentation_multiplicity": whole(
                "augmentation_multiplicity",
                self.augmentation_multiplicity,
                1,
                MAX_VIEWS,
            )
        }
        if isinstance(bounds, Sequence) and not isinstance(bounds, str):
            plain["max_grad_norm"] = [
                positive("max_grad_norm", bound) for bound in bounds or [math.nan]
            ]
        else:
            plain["max_grad_norm"] = positive("max_grad_norm", bounds)
        if self.clipping_threshold is not None:
            threshold = positive("clipping_threshold", self.clipping_threshold)
            plain["clipping_threshold"] = threshold
        for name, value in plain.items():
            object.__setattr__(self, name, value)

    def _check_schedules(self) -> None:
        _require_kind("noise_schedule", self.noise_schedule, Schedule)
        kinds = Schedule | AdaptiveClipping
        _require_kind("clipping_schedule", self.clipping_schedule, kinds)
        if isinstance(self.clipping_schedule, AdaptiveClipping) and (
            self.clipping_fn != "Abadi" or self.clipping_style != "all-layer"
        ):
            raise ConfigError(
                "clipping_schedule",
                "clipping_schedule=AdaptiveClipping() needs one norm per sample, so "
                "clipping_fn must be 'Abadi' and clipping_style 'all-layer', got "
                f"{self.clipping_fn!r} and {self.clipping_style!r}.",
            )
        views = self.augmentation_multiplicity
        if views > 1 and self.engine == "microbatch":
            raise ConfigError(
                "augmentation_multiplicity",
                "augmentation_multiplicity must be 1 with engine='microbatch', which "
                f"runs one row at a time, got {views}. Use another engine.",
            )

    @property
    def _bounds(self) -> list[Any]:
        bounds = self.max_grad_norm
        return list(bounds) if isinstance(bounds, Sequence) else [bounds]

    @cached_property
    def sensitivity(self) -> float:
        """Largest L2 norm that one record adds to the clipped sum, sqrt(sum R_g^2)."""
        return math.hypot(*self._bounds)

    def clipper(self, clipping_groups: ClippingGroups) -> Clipper:
        """Return the clipper of these groups.

        Raises:
            ConfigError: max_grad_norm has bounds for another number of groups.
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
        """Return a clipper of one group, this unit, with the whole gradient's bound."""
        bounds = [self.sensitivity]
        return Clipper(
            self.clipping_fn, [[unit]], bounds, threshold_ratio=self._threshold_ratio
        )

    @property
    def _threshold_ratio(self) -> float:
        return (self.clipping_threshold or self.sensitivity) / self.sensitivity

    def as_data(self) -> dict[str, Any]:
        """Return JSON values by name, without fields that have their default."""
        defaults = {field.name: field.default for field in fields(self)}
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            name: _plain(value)
            for name, value in values.items()
            if defaults[name] is MISSING or value != defaults[name]
        }


def _plain(value: Any) -> Any:
    """Return the JSON value of an option."""
    if isinstance(value, Schedule | AdaptiveClipping):
        return value.as_data()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return value


def _require_kind(field: str, value: object, kind: Any) -> None:
    if value is not None and not isinstance(value, kind):
        raise ConfigError(
            field, f"{field} must be a schedule (dp.schedules), got {value!r}."
        )

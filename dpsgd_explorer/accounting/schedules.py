"""Schedules: factors of the noise or of the clipping bound, one per step.

A schedule is public: it depends on the index of the step alone.  Scheduled noise is
accounted step by step (heterogeneous composition).  A scheduled bound has no privacy
cost, since the noise is a multiple of it.

Source: Du et al. (2021), arXiv:2111.00173 (noise and bounds that change during a run).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from itertools import groupby
from typing import Any

from dpsgd_explorer.accounting.core.phase import Phase, phase_with
from dpsgd_explorer.errors import AccountingError, ConfigError
from dpsgd_explorer.validation import positive, whole

#: Step (0 for the first) -> factor of its noise multiplier or of its bound.
Factor = Callable[[int], float]
#: Number of phases of a run that are accounted separately; more would take too long.
MAX_PHASES = 100


@dataclass(frozen=True)
class Schedule(ABC):
    """Factors over the steps of a run; the factor of the first step is 1.

    Raises:
        ConfigError: a number is not above 0 and finite, or not whole where it counts.
    """

    def __post_init__(self) -> None:
        """Checks that all numbers are above 0 and finite; stores plain numbers."""
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, Schedule):
                number = _above_zero(field.name, value)
                if field.type == "int":
                    number = whole(field.name, value, 1, 10**9)
                object.__setattr__(self, field.name, number)

    @abstractmethod
    def factor(self, step: int, steps: int) -> float:
        """Returns the factor of a step.

        Args:
            step: Index of the step; the first step is 0.
            steps: Number of steps of the run.
        """

    def over(self, steps: int) -> Factor:
        """Returns step -> factor for a run of ``steps`` planned steps."""
        return lambda step: self.factor(step, steps)

    def as_data(self) -> dict[str, Any]:
        """Returns the schedule as JSON values."""
        values = {
            name: value.as_data() if isinstance(value, Schedule) else value
            for name, value in vars(self).items()
        }
        return {"name": NAMES[type(self)], **values}


@dataclass(frozen=True)
class Exponential(Schedule):
    """A factor that is multiplied by ``rate`` at each step.

    Args:
        rate: Ratio of two consecutive factors, above 0; below 1, noise or bound shrink.

    Raises:
        ConfigError: ``rate`` is not above 0 and finite.

    Source: Du et al. (2021), arXiv:2111.00173.

    Example:
        >>> from dpsgd_explorer.dp import schedules
        >>> schedule = schedules.Exponential(rate=0.5)
        >>> [schedule.factor(step, steps=4) for step in range(4)]
        [1.0, 0.5, 0.25, 0.125]
    """

    rate: float

    def factor(self, step: int, steps: int) -> float:
        return float(self.rate**step)


@dataclass(frozen=True)
class Stairs(Schedule):
    """A factor that is multiplied by ``rate`` after every ``every`` steps.

    Args:
        rate: Ratio of the factors of two consecutive stairs, above 0.
        every: Steps per stair, a whole number from 1.

    Raises:
        ConfigError: a number is outside its domain.

    Source: Du et al. (2021), arXiv:2111.00173.

    Example:
        >>> from dpsgd_explorer.dp import schedules
        >>> schedule = schedules.Stairs(rate=0.5, every=2)
        >>> [schedule.factor(step, steps=5) for step in range(5)]
        [1.0, 1.0, 0.5, 0.5, 0.25]
    """

    rate: float
    every: int

    def factor(self, step: int, steps: int) -> float:
        return float(self.rate ** (step // self.every))


@dataclass(frozen=True)
class Linear(Schedule):
    """A factor that changes linearly from 1 to ``to``.

    The last planned step has the factor ``to``; so do the steps after it.

    Args:
        to: Factor of the last planned step, above 0.

    Raises:
        ConfigError: ``to`` is not above 0 and finite.

    Source: Du et al. (2021), arXiv:2111.00173.

    Example:
        >>> from dpsgd_explorer import dp
        >>> schedule = dp.schedules.Linear(to=0.5)
        >>> [schedule.factor(step, steps=5) for step in range(5)]
        [1.0, 0.875, 0.75, 0.625, 0.5]
        >>> dp.Noise(schedule=schedule)  # half the noise at the end
        Noise(kind='secure', seed=None, schedule=Linear(to=0.5))
    """

    to: float

    def factor(self, step: int, steps: int) -> float:
        return 1 + (self.to - 1) * _share(step, steps)


@dataclass(frozen=True)
class Cosine(Schedule):
    """A factor that falls or rises from 1 to ``to`` along half a cosine wave.

    The last planned step has the factor ``to``; so do the steps after it.

    Args:
        to: Factor of the last planned step, above 0.

    Raises:
        ConfigError: ``to`` is not above 0 and finite.

    Source: Loshchilov and Hutter (2016), arXiv:1608.03983 (the wave, for learning
    rates).

    Example:
        >>> from dpsgd_explorer.dp import schedules
        >>> schedule = schedules.Cosine(to=0.5)
        >>> [round(schedule.factor(step, steps=5), 3) for step in range(5)]
        [1.0, 0.927, 0.75, 0.573, 0.5]
    """

    to: float

    def factor(self, step: int, steps: int) -> float:
        progress = (1 - math.cos(math.pi * _share(step, steps))) / 2
        return 1 + (self.to - 1) * progress


@dataclass(frozen=True)
class Staged(Schedule):
    """Another schedule in ``stages`` equally long stages with one factor each.

    The first stage has the factor of the first step, and the last stage the factor of
    the last step.  An accountant needs less time for noise in few stages.

    Args:
        shape: The other schedule.
        stages: Number of stages, a whole number from 1.

    Raises:
        ConfigError: ``stages`` is not a whole number from 1.

    Example:
        >>> from dpsgd_explorer.dp import schedules
        >>> schedule = schedules.Staged(schedules.Linear(to=0.5), stages=3)
        >>> [schedule.factor(step, steps=6) for step in range(6)]
        [1.0, 1.0, 0.75, 0.75, 0.5, 0.5]
    """

    shape: Schedule
    stages: int

    def factor(self, step: int, steps: int) -> float:
        parts = min(self.stages, steps)
        part = min(step * parts // max(steps, 1), parts - 1)
        return self.shape.factor(part, parts)


SCHEDULES: dict[str, type[Schedule]] = {
    "exponential": Exponential,
    "stairs": Stairs,
    "linear": Linear,
    "cosine": Cosine,
    "staged": Staged,
}
NAMES = {schedule: name for name, schedule in SCHEDULES.items()}


def scheduled_phases(
    sample_rate: float,
    noise_multiplier: float,
    factors: Sequence[float],
    slots: int | None = None,
) -> list[Phase]:
    """Returns the phases of a run in order: consecutive steps with equal noise.

    With more than MAX_PHASES different factors, factors close to each other count as
    the smallest of them, which bounds ε from above.

    Args:
        sample_rate: Inclusion probability of each record in each step.
        noise_multiplier: Noise multiplier at factor 1.
        factors: Factor of each step.
        slots: Steps of an epoch of random allocation; None for Poisson sampling.

    Raises:
        AccountingError: the noise changes within an epoch of random allocation.
    """
    if slots is not None:
        _require_equal_within_epochs(factors, slots)
    rounded = _rounded_down(factors) if len(set(factors)) > MAX_PHASES else factors
    return [
        phase_with(sample_rate, noise_multiplier * factor, len(list(steps)), slots)
        for factor, steps in groupby(rounded)
    ]


def _require_equal_within_epochs(factors: Sequence[float], slots: int) -> None:
    """Raises AccountingError if a factor differs from the first of its epoch."""
    for step, factor in enumerate(factors):
        if factor != factors[step - step % slots]:
            raise AccountingError(
                "noise_schedule must change the noise only between epochs of random "
                f"allocation, every {slots} steps, got a change at step {step}. Use "
                f"Stairs(every={slots}) or another multiple of {slots}.",
                field="noise_schedule",
            )


def _above_zero(name: str, value: object) -> int | float:
    return positive(name, value, _error)


def _error(name: str, message: str) -> ConfigError:
    return ConfigError(name, f"{name} of a schedule{message.removeprefix(name)}")


def _rounded_down(factors: Sequence[float]) -> list[float]:
    """Returns the factors, rounded down to at most MAX_PHASES different factors."""
    low, high = min(factors), max(factors)
    width = math.log(high / low) / (MAX_PHASES - 1)

    def group(factor: float) -> int:
        return int(math.log(factor / low) / width)

    smallest: dict[int, float] = {}
    for factor in sorted(set(factors)):
        smallest.setdefault(group(factor), factor)
    return [smallest[group(factor)] for factor in factors]


def _share(step: int, steps: int) -> float:
    """Returns the share of the run before a step: 0 at the first, 1 at the last."""
    return min(1.0, step / max(1, steps - 1))

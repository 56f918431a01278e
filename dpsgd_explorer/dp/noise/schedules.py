"""Schedules: factors of the noise or of the clipping bound, one per step.

A schedule is public: it depends on the number of the step alone.  Scheduled noise is
accounted step by step (heterogeneous composition).  A scheduled bound has no privacy
cost, since the noise is a multiple of it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from dpsgd_explorer.errors import ConfigError

#: Step (0 for the first) -> factor of its noise multiplier or of its bound.
Factor = Callable[[int], float]


@dataclass(frozen=True)
class Schedule(ABC):
    """Factors over the steps of a run; 1 at the first one.

    Raises:
        ConfigError: a number is outside its domain.
    """

    def __post_init__(self) -> None:
        """Check that all numbers are above 0 and finite."""
        for name, value in asdict(self).items():
            if not isinstance(value, int | float) or not 0 < value < math.inf:
                raise ConfigError(
                    name,
                    f"{name} of a schedule must be a finite number above 0; got "
                    f"{value!r}.",
                )

    @abstractmethod
    def factor(self, step: int, steps: int) -> float:
        """Return the factor of a step, 0, 1, ..., in a run of ``steps`` steps."""

    def over(self, steps: int) -> Factor:
        """Return step -> factor for a run of ``steps`` planned steps."""
        return lambda step: self.factor(step, steps)

    def as_data(self) -> dict[str, Any]:
        """Return the schedule as JSON values."""
        return {"name": NAMES[type(self)], **asdict(self)}


@dataclass(frozen=True)
class Exponential(Schedule):
    """Multiplied by ``rate`` at each step."""

    rate: float

    def factor(self, step: int, steps: int) -> float:
        return float(self.rate**step)


@dataclass(frozen=True)
class Stairs(Schedule):
    """Multiplied by ``rate`` after every ``every`` steps."""

    rate: float
    every: int

    def factor(self, step: int, steps: int) -> float:
        return float(self.rate ** (step // self.every))


@dataclass(frozen=True)
class Linear(Schedule):
    """Linear from 1 to ``to`` at the last planned step, and ``to`` after it."""

    to: float

    def factor(self, step: int, steps: int) -> float:
        return 1 + (self.to - 1) * _share(step, steps)


@dataclass(frozen=True)
class Cosine(Schedule):
    """From 1 to ``to`` along half a cosine wave, and ``to`` after the last step."""

    to: float

    def factor(self, step: int, steps: int) -> float:
        progress = (1 - math.cos(math.pi * _share(step, steps))) / 2
        return 1 + (self.to - 1) * progress


SCHEDULES: dict[str, type[Schedule]] = {
    "exponential": Exponential,
    "stairs": Stairs,
    "linear": Linear,
    "cosine": Cosine,
}
NAMES = {schedule: name for name, schedule in SCHEDULES.items()}


def _share(step: int, steps: int) -> float:
    """Return the share of the run before a step: 0 at the first, 1 at the last."""
    return min(1.0, step / max(1, steps - 1))

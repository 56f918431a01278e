"""How noise or clipping bound change from step to step: a factor for each.

A schedule is public: it depends on the number of the step and on nothing else.  Noise
that changes is accounted step by step (heterogeneous composition).  A bound that
changes costs nothing, for the noise is a multiple of it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from dpsgd_explorer.errors import ConfigError

Factor = Callable[[int], float]
"""From a step's number, 0 for the first, to what multiplies its noise or bound."""


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
        """Return the factor of a step, 0, 1, ..., of so many planned ones."""

    def over(self, steps: int) -> Factor:
        """Return the factors of a run of so many planned steps."""
        return lambda step: self.factor(step, steps)

    def as_data(self) -> dict[str, Any]:
        """Return JSON values."""
        return {"name": NAMES[type(self)], **asdict(self)}


@dataclass(frozen=True)
class Exponential(Schedule):
    """Multiplied by ``rate`` at each step."""

    rate: float

    def factor(self, step: int, steps: int) -> float:
        return float(self.rate**step)


@dataclass(frozen=True)
class Stairs(Schedule):
    """Multiplied by ``rate`` after every so many steps."""

    rate: float
    every: int

    def factor(self, step: int, steps: int) -> float:
        return float(self.rate ** (step // self.every))


@dataclass(frozen=True)
class Linear(Schedule):
    """Straight from 1 to ``to`` at the last planned step, and ``to`` from then on."""

    to: float

    def factor(self, step: int, steps: int) -> float:
        return 1 + (self.to - 1) * _share(step, steps)


@dataclass(frozen=True)
class Cosine(Schedule):
    """From 1 to ``to`` along half a cosine wave, and ``to`` from then on."""

    to: float

    def factor(self, step: int, steps: int) -> float:
        fallen = (1 - math.cos(math.pi * _share(step, steps))) / 2
        return 1 + (self.to - 1) * fallen


SCHEDULES: dict[str, type[Schedule]] = {
    "exponential": Exponential,
    "stairs": Stairs,
    "linear": Linear,
    "cosine": Cosine,
}
NAMES = {schedule: name for name, schedule in SCHEDULES.items()}


def _share(step: int, steps: int) -> float:
    """Return how much of the run lies behind, from 0 at the first step to 1."""
    return min(1.0, step / max(1, steps - 1))

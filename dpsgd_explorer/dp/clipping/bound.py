"""The clipping bound over the steps: constant, on a schedule, or found privately."""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor

from dpsgd_explorer.accounting import Plan
from dpsgd_explorer.dp.clipping.adaptive import AdaptiveBound, AdaptiveClipping
from dpsgd_explorer.dp.noise.base import NoiseSource
from dpsgd_explorer.dp.noise.schedules import Schedule

ClippingSchedule = Schedule | AdaptiveClipping


class Bound(Protocol):
    """What multiplies ``max_grad_norm`` at each step.

    Attributes:
        count_noise: Noise multiplier of the counts it releases; 0 if it releases none.
    """

    count_noise: float

    def factor(self, step: int) -> float:
        """Return the factor of a step, 0, 1, ..., up to the next one to come."""

    def observe(
        self, norms: Tensor, max_grad_norm: float, noise: NoiseSource | None
    ) -> float:
        """Learn from the norms [B] of a step; return the noise multiplier used."""

    def skip(self, steps: int) -> None:
        """Go on as if so many steps had been made."""

    def state(self) -> list[float]:
        """Return what ``restore`` takes."""

    def restore(self, state: list[float]) -> None:
        """Go on from a state."""


class PlannedBound:
    """A bound that is known before the run: it learns nothing and releases nothing."""

    count_noise = 0.0

    def __init__(self, schedule: Schedule | None, steps: int) -> None:
        self._schedule, self._steps = schedule, steps

    def factor(self, step: int) -> float:
        """Return the schedule's factor, or 1."""
        if self._schedule is None:
            return 1.0
        return self._schedule.factor(step, self._steps)

    def observe(self, *seen: Any) -> float:
        """Look at nothing."""
        return 0.0

    def skip(self, steps: int) -> None:
        """Nothing depends on the steps made."""

    def state(self) -> list[float]:
        """Return nothing: the schedule says it all."""
        return []

    def restore(self, state: list[float]) -> None:
        """Take nothing."""


def bound_of(schedule: ClippingSchedule | None, plan: Plan) -> Bound:
    """Return the bound of a run."""
    if isinstance(schedule, AdaptiveClipping):
        return AdaptiveBound(schedule, plan)
    return PlannedBound(schedule, plan.steps)

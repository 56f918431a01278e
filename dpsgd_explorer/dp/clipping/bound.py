"""The clipping bound over the steps: constant, scheduled, or adapted privately."""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor

from dpsgd_explorer.accounting import Plan
from dpsgd_explorer.accounting.schedules import Schedule
from dpsgd_explorer.dp.clipping.adaptive import AdaptiveBound, AdaptiveClipping
from dpsgd_explorer.dp.noise.base import NoiseSource

ClippingSchedule = Schedule | AdaptiveClipping


class Bound(Protocol):
    """Factors of ``max_grad_norm``, one per step.

    Attributes:
        count_noise: Noise multiplier of the counts it releases; 0 if it releases none.
    """

    count_noise: float

    def factor(self, step: int) -> float:
        """Return the factor of a step, 0, 1, ..., up to the next one to come."""

    def observe(
        self, norms: Tensor, max_grad_norm: float, noise: NoiseSource | None
    ) -> float:
        """Adapt to a step's norms [B]; return the noise multiplier used, 0 if none."""

    def skip(self, steps: int) -> None:
        """Continue as if ``steps`` more steps had been made."""

    def state(self) -> list[float]:
        """Return the state, for ``restore``."""

    def restore(self, state: list[float]) -> None:
        """Continue from a state."""


class PlannedBound:
    """A bound that is known before the run, so it releases nothing."""

    count_noise = 0.0

    def __init__(self, schedule: Schedule | None, steps: int) -> None:
        self._schedule, self._steps = schedule, steps

    def factor(self, step: int) -> float:
        """Return the schedule's factor, or 1."""
        if self._schedule is None:
            return 1.0
        return self._schedule.factor(step, self._steps)

    def observe(self, *arguments: Any) -> float:
        """Return 0: nothing was released."""
        return 0.0

    def skip(self, steps: int) -> None:
        """Do nothing: no state depends on the steps made."""

    def state(self) -> list[float]:
        """Return an empty state."""
        return []

    def restore(self, state: list[float]) -> None:
        """Do nothing: the state is empty."""


def bound_of(schedule: ClippingSchedule | None, plan: Plan) -> Bound:
    """Return the bound of a run."""
    if isinstance(schedule, AdaptiveClipping):
        return AdaptiveBound(schedule, plan)
    return PlannedBound(schedule, plan.steps)

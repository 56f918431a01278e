"""The clipping bound over the steps: constant, scheduled, chosen, adapted privately."""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor

from dpsgd_explorer.accounting import Plan
from dpsgd_explorer.accounting.schedules import Schedule
from dpsgd_explorer.dp.clipping.adaptive import AdaptiveBound, AdaptiveClipping
from dpsgd_explorer.dp.distributed.ranks import ALONE, Ranks
from dpsgd_explorer.dp.noise.base import NoiseSource

ClippingSchedule = Schedule | AdaptiveClipping


class Bound(Protocol):
    """Factors of ``max_grad_norm``, one per step.

    Attributes:
        count_noise: Noise multiplier of the counts it releases; 0 if it releases none.
        choices: First step and factor of each choice between steps.
    """

    count_noise: float
    choices: list[tuple[int, float]]

    def factor(self, step: int) -> float:
        """Return the factor of a step, 0, 1, ..., up to the next one to come."""

    def observe(
        self,
        norms: Tensor,
        max_grad_norm: float,
        noise: NoiseSource | None,
        ranks: Ranks = ALONE,
    ) -> float:
        """Adapt to a step's norms [B]; return the noise multiplier used, 0 if none."""

    def skip(self, steps: int) -> None:
        """Continue as if ``steps`` more steps had been made."""

    def state(self) -> list[float]:
        """Return the state, for ``restore``."""

    def restore(self, state: list[float]) -> None:
        """Continue from a state."""


class PlannedBound:
    """A bound known before the run, or chosen between steps; it releases nothing."""

    count_noise = 0.0

    def __init__(self, schedule: Schedule | None, steps: int) -> None:
        self._schedule, self._steps = schedule, steps
        self.choices: list[tuple[int, float]] = []

    @property
    def is_constant(self) -> bool:
        """Whether the factor is 1 at all steps."""
        return self._schedule is None and not self.choices

    def choose(self, step: int, factor: float) -> None:
        """Multiply the bound by this factor from a step on; an earlier one ends."""
        self.choices.append((step, factor))

    def factor(self, step: int) -> float:
        """Return the schedule's factor, or 1, times the chosen one."""
        planned = 1.0
        if self._schedule is not None:
            planned = self._schedule.factor(step, self._steps)
        for first, factor in reversed(self.choices):
            if first <= step:
                return planned * factor
        return planned

    def observe(self, *arguments: Any) -> float:
        """Return 0: nothing was released."""
        return 0.0

    def skip(self, steps: int) -> None:
        """Do nothing: no state depends on the steps made."""

    def state(self) -> list[float]:
        """Return the choices, each as its first step and its factor."""
        return [float(number) for choice in self.choices for number in choice]

    def restore(self, state: list[float]) -> None:
        """Continue with these choices."""
        pairs = zip(state[::2], state[1::2], strict=True)
        self.choices = [(int(step), factor) for step, factor in pairs]


def bound_of(schedule: ClippingSchedule | None, plan: Plan) -> Bound:
    """Return the bound of a run."""
    if isinstance(schedule, AdaptiveClipping):
        return AdaptiveBound(schedule, plan)
    return PlannedBound(schedule, plan.steps)

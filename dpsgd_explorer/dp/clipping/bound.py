"""The clipping bound of each step: constant, scheduled, set by a user, or adaptive."""

from __future__ import annotations

from typing import Protocol

from dpsgd_explorer.accounting import Plan
from dpsgd_explorer.accounting.schedules import Schedule
from dpsgd_explorer.dp.clipping.adaptive import AdaptiveBound, AdaptiveClipping

ClippingSchedule = Schedule | AdaptiveClipping


class Bound(Protocol):
    """The factor of ``max_grad_norm`` at each step.

    Attributes:
        count_noise: Noise multiplier of the counts that the adaptation releases; 0
            without adaptation.
        choices: (first step, factor) of each bound that the user set between steps.
    """

    count_noise: float
    choices: list[tuple[int, float]]

    @property
    def is_constant(self) -> bool:
        """True if the factor is 1 at all steps."""

    def factor(self, step: int) -> float:
        """Returns the factor of a step, counted from 0, up to the next step."""

    def skip(self, steps: int) -> None:
        """Continues as if ``steps`` further steps had been done."""

    def state(self) -> list[float]:
        """Returns the state, for ``restore``."""

    def restore(self, state: list[float]) -> None:
        """Continues from a result of ``state``."""


class PlannedBound:
    """A scheduled bound, or a bound that the user sets between steps.

    Args:
        schedule: Schedule of the factor; None for a factor of 1.
        steps: Number of planned steps.
    """

    count_noise = 0.0

    def __init__(self, schedule: Schedule | None, steps: int) -> None:
        self._schedule, self._steps = schedule, steps
        self.choices: list[tuple[int, float]] = []

    @property
    def is_constant(self) -> bool:
        """True if the factor is 1 at all steps."""
        return self._schedule is None and not self.choices

    def choose(self, step: int, factor: float) -> None:
        """Sets the user's factor from a step on; it replaces an earlier factor."""
        self.choices.append((step, factor))

    def factor(self, step: int) -> float:
        """Returns the schedule's factor times the user's factor."""
        planned = 1.0
        if self._schedule is not None:
            planned = self._schedule.factor(step, self._steps)
        for first, factor in reversed(self.choices):
            if first <= step:
                return planned * factor
        return planned

    def skip(self, steps: int) -> None:
        """Does nothing, because the state does not depend on the steps done."""

    def state(self) -> list[float]:
        """Returns the user's factors, as a flat list of first steps and factors."""
        return [float(number) for choice in self.choices for number in choice]

    def restore(self, state: list[float]) -> None:
        """Continues from a result of ``state``."""
        pairs = zip(state[::2], state[1::2], strict=True)
        self.choices = [(int(step), factor) for step, factor in pairs]


def bound_of(schedule: ClippingSchedule | None, plan: Plan) -> Bound:
    """Returns the clipping bound of a run."""
    if isinstance(schedule, AdaptiveClipping):
        return AdaptiveBound(schedule, plan)
    return PlannedBound(schedule, plan.steps)

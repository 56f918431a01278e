"""When a run speaks and how much it has spent by then: fixed before the first step."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from dpsgd_explorer.experiments.training_config import TrainingConfig

MOST_STEP_EVENTS = 1_000


@dataclass(frozen=True)
class Schedule:
    """The steps of a run at which something is told.

    Attributes:
        last: Steps that will be done.
        told: Steps with a ``step`` event.
        evaluated: Steps with an ``evaluation`` event.
        epsilons: ε after each of these steps, None where there is no guarantee.
    """

    last: int
    told: frozenset[int]
    evaluated: frozenset[int]
    epsilons: dict[int, float | None]

    @classmethod
    def of(cls, config: TrainingConfig) -> Self:
        """Return a run's schedule; the last step done is always told and evaluated."""
        last = last_step(config)
        every = math.ceil(max(last, 1) / MOST_STEP_EVENTS)
        told = {1, last, *range(every, last + 1, every)} if last else set()
        evaluated = {step for step in config.evaluation_steps if step < last} | {last}
        steps = sorted(told | evaluated)
        return cls(last, frozenset(told), frozenset(evaluated), epsilons(config, steps))


def last_step(config: TrainingConfig) -> int:
    """Return how many steps are done: those within ``stop_at_epsilon``, if it is set.

    A run without privacy spends nothing that could be counted and goes on to its end.
    """
    if config.stop_at_epsilon is None or not config.private:
        return config.plan.steps
    return config.plan.steps_within(config.stop_at_epsilon)


def epsilons(config: TrainingConfig, steps: Iterable[int]) -> dict[int, float | None]:
    """Return ε after each number of steps; None where it is infinite."""
    if not config.plan.is_private:
        return dict.fromkeys(steps)
    asked = list(steps)
    spent = config.plan.epsilons(asked)
    return {
        step: value if math.isfinite(value) else None
        for step, value in zip(asked, spent, strict=True)
    }

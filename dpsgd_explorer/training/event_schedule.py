"""The steps with events and the ε after each: fixed before the first step."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Self

from dpsgd_explorer.accounting import Plan
from dpsgd_explorer.experiments.training_config import TrainingConfig

MOST_STEP_EVENTS = 1_000
CURVES = 8


@dataclass(frozen=True)
class Schedule:
    """The steps of a run after which events are emitted.

    Attributes:
        last: Steps that will be done.
        reported: Steps with a ``step`` event.
        evaluated: Steps with an ``evaluation`` event.
        epsilons: ε at the start and after each of these steps, None where there is no
            guarantee.
        noise_changes: Steps done before the noise changes.
    """

    last: int
    reported: frozenset[int]
    evaluated: frozenset[int]
    epsilons: dict[int, float | None]
    noise_changes: frozenset[int]

    @classmethod
    def of(cls, config: TrainingConfig) -> Self:
        """Return a run's schedule; the last step is always reported and evaluated."""
        last = last_step(config)
        every = math.ceil(max(last, 1) / MOST_STEP_EVENTS)
        reported = {1, last, *range(every, last + 1, every)} if last else set()
        evaluated = {step for step in config.evaluation_steps if step < last} | {last}
        steps = sorted({0} | reported | evaluated)
        *changes, _ = accumulate(phase.steps for phase in config.plan.phases)
        return cls(
            last,
            frozenset(reported),
            frozenset(evaluated),
            epsilons(config, steps),
            frozenset(changes),
        )


def last_step(config: TrainingConfig) -> int:
    """Return how many steps are done: those within ``stop_at_epsilon``, if it is set.

    A run without privacy has no ε to stop at and takes all its steps.
    """
    if config.stop_at_epsilon is None or not config.private:
        return config.plan.steps
    return config.plan.steps_within(config.stop_at_epsilon)


def epsilons(config: TrainingConfig, steps: Iterable[int]) -> dict[int, float | None]:
    """Return ε after each number of steps; None where it is infinite."""
    if not config.plan.is_private:
        return dict.fromkeys(steps)
    counts = tuple(steps)
    return {
        step: value if math.isfinite(value) else None
        for step, value in zip(counts, _spent(config.plan, counts), strict=True)
    }


@lru_cache(maxsize=CURVES)
def _spent(plan: Plan, counts: tuple[int, ...]) -> list[float]:
    """Return the ε of a plan, from the cache: runs of one process may share it."""
    return plan.epsilons(list(counts))

"""The steps with events and the ε after each: fixed before the first step.

Where the plan changes in mid-run, they are fixed anew for the steps that follow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate
from typing import Self

from dpsgd_explorer.accounting.spending import Spending
from dpsgd_explorer.experiments.training_config import TrainingConfig

MOST_STEP_EVENTS = 1_000


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
        *changes, _ = accumulate(phase.steps for phase in config.plan.phases)
        return cls.along(config, config.spending(), 0, frozenset(changes))

    @classmethod
    def along(
        cls,
        config: TrainingConfig,
        spending: Spending,
        begin: int,
        noise_changes: frozenset[int] = frozenset(),
    ) -> Self:
        """Return the schedule of the steps after some, with the settings from there on.

        Args:
            config: The settings.
            spending: What the run spends under them.
            begin: Steps that are done.
            noise_changes: Steps done before the noise of the plan changes.
        """
        last = spending.last
        every = math.ceil(max(last, 1) / MOST_STEP_EVENTS)
        reported = {1, last, *range(every, last + 1, every)} if last else set()
        reported = {step for step in reported if step > begin}
        evaluated = {step for step in config.evaluation_steps if begin < step < last}
        evaluated.add(last)
        steps = sorted({begin} | reported | evaluated)
        return cls(
            last,
            frozenset(reported),
            frozenset(evaluated),
            spending.epsilons(steps),
            noise_changes,
        )

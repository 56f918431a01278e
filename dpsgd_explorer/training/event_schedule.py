"""The schedule of a run's events, with the ε after each scheduled step.

The schedule is computed before the first step.  If the plan changes during the run, it
is computed again for the remaining steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate
from typing import Self

from dpsgd_explorer.accounting.spending import Spending
from dpsgd_explorer.experiments.training_config import TrainingConfig

#: Maximum number of ``step`` events of a run, to limit the size of its log.
MAX_STEP_EVENTS = 1_000


@dataclass(frozen=True)
class Schedule:
    """The steps of a run after which events are emitted.

    Attributes:
        last: Number of steps that the run will do.
        reported: Steps with a ``step`` event.
        evaluated: Steps with an ``evaluation`` event.
        epsilons: {step: ε} at the start and after each of these steps; None without a
            guarantee.  With random allocation: at the start, after whole epochs and
            after the last step.
        noise_changes: Steps after which the noise changes.
    """

    last: int
    reported: frozenset[int]
    evaluated: frozenset[int]
    epsilons: dict[int, float | None]
    noise_changes: frozenset[int]

    @classmethod
    def of(cls, config: TrainingConfig) -> Self:
        """Returns a run's schedule; the last step is always reported and evaluated."""
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
        """Returns the schedule of the steps after ``begin``.

        Args:
            config: Settings of these steps.
            spending: ε of the run with these settings.
            begin: Number of steps that are done.
            noise_changes: Steps after which the noise of the plan changes.
        """
        last = spending.last
        interval = math.ceil(max(last, 1) / MAX_STEP_EVENTS)
        reported = {1, last, *range(interval, last + 1, interval)} if last else set()
        reported = {step for step in reported if step > begin}
        evaluated = {step for step in config.evaluation_steps if begin < step < last}
        evaluated.add(last)
        counted = {begin} | reported | evaluated
        if slots := config.plan.slots:
            whole_epochs = {step for step in counted if step % slots == 0}
            counted = {begin, last} | whole_epochs
        steps = sorted(counted)
        return cls(
            last,
            frozenset(reported),
            frozenset(evaluated),
            spending.epsilons(steps),
            noise_changes,
        )

    def epsilon(self, step: int, spending: Spending) -> float | None:
        """Returns ε after a step; None without a guarantee.

        With random allocation, an exact value takes about a second, so it is computed
        after the evaluations only.  The ε of a later step bounds that of other steps.

        Args:
            step: Number of steps, at most ``last``.
            spending: ε of the run with these settings.
        """
        if spending.slots is None:
            if step in self.epsilons:
                return self.epsilons[step]
            return spending.epsilons([step])[step]  # the microscope, at this step
        counted = self.epsilons[min(x for x in self.epsilons if x >= step)]
        if not step or counted is None:
            return counted
        evaluated = min(x for x in self.evaluated if x >= step)
        exact = spending.epsilons([evaluated])[evaluated]
        return counted if exact is None else min(counted, exact)

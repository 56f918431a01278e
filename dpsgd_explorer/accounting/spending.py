"""What a run spends along its steps, also where its plan changes on the way.

| run | ε after each step |
|---|---|
| of one plan | the plan's |
| with a budget for changes | counted at the filter's order, up to the budget |
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache

from dpsgd_explorer.accounting.core.accountant import Phase
from dpsgd_explorer.accounting.core.phase import first_steps, joined
from dpsgd_explorer.accounting.plan import Plan
from dpsgd_explorer.accounting.queries import epsilon_intervals
from dpsgd_explorer.accounting.rdp.filtered_run import FilteredRun
from dpsgd_explorer.accounting.rdp.privacy_filter import RenyiFilter

#: Accountant of a run with a budget for changes, as logs and answers name it.
FILTER = "filter"
CURVES = 8


class Spending:
    """Counts the steps of one run.

    Args:
        plan: Of the run at its start.
        filtered: Its budget for changes; None: its plan was fixed beforehand.
        stop_at: ε at which a run without that budget stops; None: after its steps.

    Attributes:
        last: Steps that will be done.
    """

    def __init__(
        self,
        plan: Plan,
        filtered: FilteredRun | None = None,
        stop_at: float | None = None,
    ) -> None:
        self._filtered = filtered if plan.is_private else None
        self._done: list[Phase] = []
        self._begin, self._plan = 0, plan
        self.last = self._last(stop_at)

    def change(self, step: int, plan: Plan) -> None:
        """Go on with another plan, whose steps are those of the whole run.

        Only a run with a budget for changes, or without noise, may.
        """
        self._done = joined(first_steps(self.phases, step))
        self._begin, self._plan = step, plan
        self.last = self._last(None)

    @property
    def accountant(self) -> str:
        """Name of what counts."""
        return FILTER if self._filtered else self._plan.deciding_accountant

    @property
    def status(self) -> str:
        """Status of the ε of all steps, as an interval's; of a run with noise."""
        if self._filtered:
            return RenyiFilter.status
        terms = (self._plan.delta, self._plan.accountant)
        return epsilon_intervals(self.phases, [self.last], *terms)[0].status

    @property
    def phases(self) -> list[Phase]:
        """The steps that were done under earlier plans, and those planned now."""
        plan = self._plan
        if not self._filtered or not self._begin:
            return plan.phases
        further = plan.steps - self._begin
        return [*self._done, Phase(plan.sample_rate, plan.noise_multiplier, further)]

    def epsilons(self, steps: Iterable[int]) -> dict[int, float | None]:
        """Return ε after each number of steps; None where it is infinite."""
        counts = list(steps)
        if not self._plan.is_private:
            return dict.fromkeys(counts)
        return {
            step: value if math.isfinite(value) else None
            for step, value in zip(counts, self._epsilons(counts), strict=True)
        }

    def _epsilons(self, steps: list[int]) -> list[float]:
        if self._filtered:
            return self._filtered.counted(self.phases, steps)
        return _spent(self._plan, tuple(steps))

    def _last(self, stop_at: float | None) -> int:
        plan = self._plan
        if self._filtered:
            return self._begin + self._filtered.steps_within(
                self._done, self.phases[-1]
            )
        return plan.steps if stop_at is None else plan.steps_within(stop_at)


@lru_cache(maxsize=CURVES)
def _spent(plan: Plan, steps: tuple[int, ...]) -> list[float]:
    """Return the ε of a plan, from the cache: runs of one process may share it."""
    return plan.epsilons(list(steps))

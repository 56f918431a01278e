"""ε of a run after each of its steps, also if its plan changes during the run.

| run | ε after each step |
|---|---|
| with one fixed plan | ε of the plan |
| with a budget for changes | part of the budget's ε in use, at the filter's order |
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache

from dpsgd_explorer.accounting.core.accountant import Phase
from dpsgd_explorer.accounting.core.phase import first_steps, joined, phase_with
from dpsgd_explorer.accounting.plan import Plan
from dpsgd_explorer.accounting.queries import epsilon_intervals
from dpsgd_explorer.accounting.rdp.filtered_run import FilteredRun
from dpsgd_explorer.accounting.rdp.privacy_filter import RenyiFilter
from dpsgd_explorer.accounting.sampling_schemes import FIXED_SLOTS
from dpsgd_explorer.errors import AccountingError

#: Accountant of a run with a budget for changes, as logs and answers name it.
FILTER = "filter"
#: Number of plans whose ε along the steps is cached.
MAX_CACHED_PLANS = 8


class Spending:
    """Counts the steps of one run.

    Args:
        plan: Plan of the run at its start.
        filtered: Budget for changes of the plan; None if the plan is fixed beforehand.
        stop_at: ε at which a run without a budget for changes stops; None means after
            all steps of the plan.

    Attributes:
        last: Number of steps after which the run ends.
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
        """Continues the run with another plan.

        Only a run with a budget for changes, or without noise, may change its plan.

        Args:
            step: Number of steps done so far.
            plan: New plan.  Its steps count from the start of the run.

        Raises:
            AccountingError: a plan has fixed slots; all its steps are one release.
        """
        if FIXED_SLOTS in (plan.sampling, self._plan.sampling):
            raise AccountingError(
                "a run with fixed slots cannot change its plan: all its steps are one "
                "release. Begin a new run, or use other sampling."
            )
        self._done = joined(first_steps(self.phases, step))
        self._begin, self._plan = step, plan
        self.last = self._last(None)

    @property
    def slots(self) -> int | None:
        """Steps of an epoch of slots; None for Poisson sampling."""
        return self._plan.slots

    @property
    def accountant(self) -> str:
        """Name of the accountant; "filter" for a run with a budget for changes."""
        return FILTER if self._filtered else self._plan.deciding_accountant

    @property
    def status(self) -> str:
        """Status of ε of all steps, as in ``Interval``; only for a run with noise."""
        if self._filtered:
            return RenyiFilter.status
        terms = (self._plan.delta, self._plan.accountant)
        counted = -(-self.last // self._plan.bands)
        return epsilon_intervals(self.phases, [counted], *terms)[0].status

    @property
    def phases(self) -> list[Phase]:
        """Steps done under earlier plans, followed by the steps of the present plan."""
        plan = self._plan
        if not self._filtered or not self._begin:
            return plan.phases
        further = plan.steps - self._begin
        setting = (plan.sample_rate, plan.noise_multiplier)
        return [*self._done, phase_with(*setting, further, plan.slots)]

    def epsilons(self, steps: Iterable[int]) -> dict[int, float | None]:
        """Returns ε after each number of steps; None where it is infinite."""
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


@lru_cache(maxsize=MAX_CACHED_PLANS)
def _spent(plan: Plan, steps: tuple[int, ...]) -> list[float]:
    """Returns ε of a plan after each number of steps, cached for runs of a process."""
    return plan.epsilons(list(steps))

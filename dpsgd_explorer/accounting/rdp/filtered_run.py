"""A run whose noise, sample rate and length may change while it trains, in a budget.

The budget (ε, δ) and the order α are fixed before the first step; α is the order at
which the planned steps fit best.  Later choices may depend on all earlier releases.  If
a ``RenyiFilter`` allows every step, all steps together are (ε, δ)-private.  The part of
the budget that the steps have used so far is no guarantee: only the whole budget is.

Source: as ``privacy_filter``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Self

import numpy as np

from dpsgd_explorer.accounting.core import validation
from dpsgd_explorer.accounting.core.phase import Phase, first_steps, require_poisson
from dpsgd_explorer.accounting.rdp.curve import RdpCurve
from dpsgd_explorer.accounting.rdp.privacy_filter import RenyiFilter
from dpsgd_explorer.accounting.rdp.subsampled_gaussian import ORDERS
from dpsgd_explorer.errors import AccountingError


@dataclass(frozen=True)
class FilteredRun:
    """A budget against which the steps of a run are counted.

    >>> run = FilteredRun.planned(2.0, 1e-5, Phase(0.01, 1.1, 1))
    >>> run
    FilteredRun(epsilon=2.0, delta=1e-05, order=9.0)

    Attributes:
        epsilon: ε of all steps together.
        delta: δ of all steps together.
        order: α, at which divergences are added up.

    Raises:
        AccountingError: as ``RenyiFilter``.

    Source: as ``RenyiFilter``.
    """

    epsilon: float
    delta: float
    order: float

    def __post_init__(self) -> None:
        budget = RenyiFilter(self.epsilon, self.delta, order=self.order)
        for name in ("epsilon", "delta", "order"):
            object.__setattr__(self, name, getattr(budget, name))

    @classmethod
    def planned(cls, epsilon: float, delta: float, step: Phase) -> Self:
        """Returns the budget with the order that allows the most repetitions of a step.

        Raises:
            AccountingError: no order leaves a budget of this ε and δ.
        """
        require_poisson([step], "a filter")
        usual = RenyiFilter(epsilon, delta)  # checks the numbers
        orders = np.sort(ORDERS)
        single = RdpCurve.of([Phase(step.sample_rate, step.noise_multiplier, 1)])
        budgets = np.array([usual.budget_at(float(order)) for order in orders])
        with np.errstate(divide="ignore", invalid="ignore"):
            steps = np.nan_to_num(budgets / single.at(orders), nan=-math.inf)
        return cls(epsilon, delta, float(orders[int(np.argmax(steps))]))

    @cached_property
    def budget(self) -> float:
        """The largest sum of divergences."""
        return self._filter([]).budget

    def spent(self, done: Sequence[Phase]) -> float:
        """Returns the sum of the divergences of some steps at α."""
        require_poisson(done, "a filter")
        return math.fsum(
            phase.steps * _divergence(phase.sample_rate, phase.noise_multiplier, self)
            for phase in done
            if phase.steps
        )

    def steps_within(self, done: Sequence[Phase], further: Phase) -> int:
        """Returns the number of further steps that the budget allows.

        Args:
            done: Steps done so far.
            further: Further steps, of one phase.
        """
        require_poisson([further], "a filter")
        try:
            budget_filter = self._filter(done)
        except AccountingError:  # spent to the last digit
            return 0
        rate, noise = further.sample_rate, further.noise_multiplier
        return min(budget_filter.steps_left(rate, noise), further.steps)

    def counted(self, phases: Sequence[Phase], steps: Sequence[int]) -> list[float]:
        """Returns the part of ε that is used after each number of steps, at α.

        0 before the first step; at most ε of the budget while it allows the steps.

        Args:
            phases: Phases in order.
            steps: Numbers of steps, counted from the first phase.
        """
        conversion = self.epsilon - self.budget
        return [
            conversion + self.spent(first_steps(phases, count)) if count else 0.0
            for count in validation.all_steps(steps)
        ]

    def _filter(self, done: Sequence[Phase]) -> RenyiFilter:
        """Returns a filter that has counted the steps.

        Raises:
            AccountingError: the budget does not allow the steps.
        """
        require_poisson(done, "a filter")
        budget_filter = RenyiFilter(self.epsilon, self.delta, order=self.order)
        for phase in done:
            budget_filter.spend(phase.sample_rate, phase.noise_multiplier, phase.steps)
        return budget_filter


@lru_cache(maxsize=1024)
def _divergence(
    sample_rate: float, noise_multiplier: float, counted_by: FilteredRun
) -> float:
    curve = RdpCurve.of([Phase(sample_rate, noise_multiplier, 1)])
    return float(curve.at([counted_by.order])[0])

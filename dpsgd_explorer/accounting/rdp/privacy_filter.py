"""A privacy filter: a fixed budget for steps that are chosen adaptively.

An accountant composes phases that are fixed beforehand.  Under a filter σ, q and the
number of steps may depend on all earlier releases.  At one order α, which is fixed
beforehand, the divergences of the steps are added up.  Steps with which the sum would
exceed

    B = ε - log(1 - 1/α) + log(αδ) / (α - 1)

are rejected.  All releases together are then (α, B)-Rényi private, and hence
(ε, δ)-private.

A filter does not cover:

- an order chosen at the end, such as the best of several;
- an ε read before the budget is spent: only the whole budget holds;
- choices that depend on the records other than through releases;
- separate budgets for single records, which the source also covers.

For phases fixed beforehand, the exact accountant allows more steps at the same ε and δ.

Source: Feldman and Zrnic (2021), arXiv:2008.11193, on fully adaptive composition and
Rényi filters; conversion: as ``rdp``.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from dpsgd_explorer.accounting.core import validation as domains
from dpsgd_explorer.accounting.core.accountant import Phase, Status
from dpsgd_explorer.accounting.core.neighboring_relation import (
    ADD_OR_REMOVE_ONE,
    NeighboringRelation,
)
from dpsgd_explorer.accounting.core.tolerances import TOLERANCES
from dpsgd_explorer.accounting.core.validation import MAX_STEPS
from dpsgd_explorer.accounting.rdp.curve import RdpCurve
from dpsgd_explorer.accounting.rdp.subsampled_gaussian import ORDERS
from dpsgd_explorer.errors import AccountingError


class RenyiFilter:
    """Spends a budget of (ε, δ) on steps that may depend on earlier releases.

    >>> budget = RenyiFilter(2.0, 1e-5)
    >>> budget.steps_left(0.01, 1.1)
    1295
    >>> budget
    RenyiFilter(epsilon=2.0, delta=1e-05, order=10.2; 0 of 1.104 spent)

    Attributes:
        epsilon: ε of all releases together.
        delta: δ of all releases together.
        order: α, at which divergences are added up.
        budget: B, the largest sum of divergences.
        spent: The sum of divergences so far.
        neighboring_relation: "add_or_remove_one" or "replace_one".

    Source: Feldman and Zrnic (2021), arXiv:2008.11193.
    """

    status: ClassVar[Status] = "bound"

    def __init__(
        self,
        epsilon: float,
        delta: float,
        *,
        order: float | None = None,
        neighboring_relation: str = ADD_OR_REMOVE_ONE,
    ) -> None:
        """Fixes the budget.

        Args:
            epsilon: Greater than 0.
            delta: In (0, 1).
            order: α, greater than 1; None means the order that allows the most steps on
                all records.
            neighboring_relation: "add_or_remove_one" or "replace_one".

        Raises:
            AccountingError: an argument is outside its domain, or the order leaves no
                budget of this ε and δ.
        """
        self.epsilon = domains.target_epsilon(epsilon, "epsilon")
        self.delta = domains.delta(delta)
        self.order = self._best_order() if order is None else _order(order)
        self.budget = self.budget_at(self.order)
        self.neighboring_relation = NeighboringRelation.of(neighboring_relation)
        self.spent = 0.0
        if self.budget <= 0:
            raise AccountingError(
                f"order must leave a budget of epsilon = {epsilon!r} at delta = "
                f"{delta!r}, got {self.order!r}, at which the conversion alone costs "
                "more. Raise order, epsilon or delta.",
                field="order",
            )

    def __repr__(self) -> str:
        return (
            f"RenyiFilter(epsilon={self.epsilon}, delta={self.delta}, "
            f"order={self.order:.4g}; {self.spent:.4g} of {self.budget:.4g} spent)"
        )

    @property
    def left(self) -> float:
        """The divergence that may still be spent."""
        return max(self.budget - self.spent, 0.0)

    def steps_left(self, sample_rate: float, noise_multiplier: float) -> int:
        """Returns the number of steps that the budget allows, up to MAX_STEPS.

        Args:
            sample_rate: Sample rate of the steps.
            noise_multiplier: Noise multiplier of the steps.
        """
        single = self._divergence(Phase(sample_rate, noise_multiplier, 1))
        if single * MAX_STEPS <= self.left:
            return MAX_STEPS
        count = int(self.left / single)
        run = Phase(sample_rate, noise_multiplier, max(count, 0))
        return run.steps if self._fits(run) else max(run.steps - 1, 0)

    def affords(
        self, sample_rate: float, noise_multiplier: float, steps: int = 1
    ) -> bool:
        """Returns True if the budget allows the steps; spends nothing."""
        return self._fits(Phase(sample_rate, noise_multiplier, steps))

    def spend(
        self, sample_rate: float, noise_multiplier: float, steps: int = 1
    ) -> None:
        """Adds the divergence of DP-SGD steps; call it before the steps.

        Raises:
            AccountingError: the budget does not allow the steps; nothing is spent, and
                nothing may be released.
        """
        self._count(self._divergence(Phase(sample_rate, noise_multiplier, steps)))

    def spend_curve(self, curve: RdpCurve) -> None:
        """Adds the divergence of another mechanism, given by its curve.

        Raises:
            AccountingError: as ``spend``, or the neighbouring relations differ.
        """
        if curve.neighboring_relation != self.neighboring_relation:
            rule = f"{self.neighboring_relation!r}, as the filter's"
            domains.refuse("neighboring_relation", rule, curve.neighboring_relation)
        self._count(float(curve.at([self.order])[0]))

    def _count(self, divergence: float) -> None:
        total = self.spent + divergence
        if not total * (1 + TOLERANCES.rdp_sum) <= self.budget:
            raise AccountingError(
                "steps must stay within the budget: they need a divergence of "
                f"{divergence:.6g} of order {self.order:g}, got {self.left:.6g} left "
                f"of {self.budget:.6g}. Stop here, or use fewer steps or more noise.",
                field="steps",
            )
        self.spent = total

    def _fits(self, run: Phase) -> bool:
        return (self.spent + self._divergence(run)) * (
            1 + TOLERANCES.rdp_sum
        ) <= self.budget

    def _divergence(self, run: Phase) -> float:
        if not run.steps:
            return 0.0
        curve = RdpCurve.of([run], self.neighboring_relation)
        return float(curve.at([self.order])[0])

    def budget_at(self, order: float) -> float:
        """Returns B of an order; negative if the conversion to ε alone costs more."""
        order = _order(order)
        conversion = math.log1p(-1 / order)
        conversion -= math.log(order * self.delta) / (order - 1)
        return self.epsilon - conversion

    def _best_order(self) -> float:
        """Returns the order that allows the most Gaussian steps, as R(α) is linear."""
        budgets = np.array([self.budget_at(float(order)) for order in ORDERS])
        return float(ORDERS[int(np.argmax(budgets / ORDERS))])


def _order(value: object) -> float:
    order = domains.finite("order", value)
    if order <= 1 or order > ORDERS.max():
        domains.refuse("order", f"above 1 and at most {ORDERS.max():g}", value)
    return order

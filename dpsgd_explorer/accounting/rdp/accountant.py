"""The Rényi accountant adds up the divergences of all steps and converts them to ε.

If R(α) is the sum of the divergences of all steps, then for every order α > 1

    ε(δ) <= R(α) + log(1 - 1/α) - log(αδ) / (α - 1),

and ε = 0 if √(1 - e^-R(α)), a bound on the total variation, is at most δ.

Source: composition: Mironov (2017), arXiv:1702.07476v3, Proposition 1; conversion:
Canonne, Kamath and Steinke (2020), arXiv:2004.00010v4, Proposition 12; total
variation: the inequality of Bretagnolle and Huber.

Notation: A orders, S numbers of steps, P phases.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import ClassVar

import numpy as np

from dpsgd_explorer.accounting.core.accountant import Accountant, Floats, Status
from dpsgd_explorer.accounting.core.neighboring_relation import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
)
from dpsgd_explorer.accounting.core.phase import StepCounts, require_poisson
from dpsgd_explorer.accounting.rdp.replaced_record import replaced_divergences
from dpsgd_explorer.accounting.rdp.subsampled_gaussian import ORDERS, renyi_divergences

#: Function from q and σ to the divergences of one step, [A].
StepDivergences = Callable[[float, float], Floats]
STEP_DIVERGENCES: Mapping[str, StepDivergences] = {
    ADD_OR_REMOVE_ONE: renyi_divergences,
    REPLACE_ONE: replaced_divergences,
}


class RdpAccountant(Accountant):
    """Adds up Rényi divergences and converts them at the order with the least ε."""

    name = "rdp"
    status: ClassVar[Status] = "bound"

    def _epsilons(self, run: StepCounts, delta: float) -> Floats:
        return self.to_epsilons(composed_divergences(run), delta)

    def _delta(self, run: StepCounts, epsilon: float) -> float:
        [rdp] = composed_divergences(run)
        return self.to_delta(rdp, epsilon)

    def to_epsilons(self, rdp: Floats, delta: float) -> Floats:
        """Returns ε at delta of each row of divergences; [S, A] -> [S]."""
        return epsilon_from_rdp(rdp, delta)

    def to_delta(self, rdp: Floats, epsilon: float) -> float:
        """Returns δ at epsilon of divergences; [A] -> ()."""
        return delta_from_rdp(rdp, epsilon)


def composed_divergences(
    run: StepCounts, step_divergences: Mapping[str, StepDivergences] = STEP_DIVERGENCES
) -> Floats:
    """Returns the divergences of each row; [S, A].

    Raises:
        AccountingError: steps use random allocation.
    """
    require_poisson(run.phases, "Rényi divergences")
    of_step, counts = step_divergences[run.relation], run.counts
    rdp = np.array([of_step(p.sample_rate, p.noise_multiplier) for p in run.phases])
    infinite = np.isinf(rdp)
    total = counts @ np.where(infinite, 0.0, rdp)  # 0 steps of infinity count 0
    total[(counts > 0) @ infinite] = math.inf
    return np.asarray(total)


def epsilon_from_rdp(rdp: Floats, delta: float, orders: Floats = ORDERS) -> Floats:
    """Returns the least ε over all orders.

    One full-batch step with σ = 5, whose exact ε at δ = 1e-5 is 0.7255:

    >>> rdp = ORDERS / (2 * 5.0**2)
    >>> float(epsilon_from_rdp(rdp, 1e-5).round(4))
    0.7945

    Shapes: rdp [..., A], orders [A] -> [...].
    """
    shrink = np.log1p(-1 / orders)
    offsets = shrink - (math.log(delta) + np.log(orders)) / (orders - 1)  # [A]
    least = np.maximum((rdp + offsets).min(axis=-1), 0.0)
    return np.where(total_variation(rdp) <= delta, 0.0, least)


def delta_from_rdp(rdp: Floats, epsilon: float, orders: Floats = ORDERS) -> float:
    """Returns the least δ over all orders; rdp and orders are [A]."""
    logs = (orders - 1) * (rdp - epsilon + np.log1p(-1 / orders)) - np.log(orders)
    return min(math.exp(min(logs.min(), 0.0)), float(total_variation(rdp)))


def total_variation(rdp: Floats) -> Floats:
    """Returns a bound on the total variation, δ at ε = 0; [..., A] -> [...].

    The divergence rises with its order, so the smallest order bounds best.
    """
    return np.asarray(np.sqrt(-np.expm1(-rdp.min(axis=-1))))

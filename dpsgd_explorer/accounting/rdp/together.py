"""ε of budgets and blind searches beside steps fixed beforehand, on the same records.

Their Rényi divergences add up.  A search carries out M trainings and releases the best
of min(K, M); the release differs from that of the best of K with probability τ =
P(K > M), whatever the records are.  So if all releases together are (ε, δ')-private for
uncut numbers of trials, they are (ε, δ' + (1 + e^ε) τ)-private as they are, with τ the
sum over the searches.

A budget is known at one order only, and τ weighs e^ε: where either makes the sum of the
divergences a poor bound, the ε of each are added instead, each at a part of δ.

Source: Mironov (2017), arXiv:1702.07476v3, Proposition 1; a divergence rises with its
order: van Erven and Harremoës (2014), theorem 3; of τ: as ``padded_selection``; basic
composition: Dwork and Roth (2014), Theorem 3.16.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from dpsgd_explorer.accounting.core.phase import Phase
from dpsgd_explorer.accounting.rdp.curve import RdpCurve
from dpsgd_explorer.accounting.rdp.filtered_run import FilteredRun
from dpsgd_explorer.accounting.rdp.padded_selection import PaddedSelection

SHARES = (0.0, 0.01, 0.03, 0.1, 0.3, 0.6, 0.9)  # of δ, that τ may take
LARGEST = 700.0  # its exponential is a float


@dataclass(frozen=True)
class Bounded:
    """What is bounded by its divergences: a whole budget, or a search.

    Attributes:
        curve: Its divergences, but for an event.
        tail: Probability of that event, which does not depend on the records.
        price: ε of it alone at ``delta``.
    """

    curve: RdpCurve
    tail: float
    price: float
    delta: float

    @classmethod
    def budget(cls, run: FilteredRun) -> Bounded:
        """Return a whole budget, known at one order."""
        return cls(_at_one_order(run), 0.0, run.epsilon, run.delta)

    @classmethod
    def search(cls, price: PaddedSelection) -> Bounded:
        """Return the winner of a blind search."""
        return cls(price.uncut, price.tail, price.epsilon, price.delta)

    def epsilon(self, delta: float) -> float:
        """Return an upper bound on its ε at δ, infinite if none is known."""
        if delta == self.delta:
            return self.price
        return epsilon_with_tail(self.curve, self.tail, delta)


def beside_steps(
    bounded: Sequence[Bounded],
    planned: Sequence[Phase],
    delta: float,
    of_steps: Callable[[float], float],
) -> float:
    """Return an upper bound on ε of budgets, searches and steps fixed beforehand.

    Args:
        bounded: Budgets and searches, at least one.
        planned: Steps; there may be none.
        delta: In (0, 1), of all together.
        of_steps: Returns ε of the steps alone at a δ, infinite if it is not known.

    Returns:
        Infinite where no bound is known.
    """
    steps = [phase for phase in planned if phase.steps]
    parts = [one.epsilon for one in bounded] + [of_steps] * bool(steps)
    added = sum(epsilon(delta / len(parts)) for epsilon in parts)
    if len(parts) == 1:
        return added
    curve = _sum([one.curve for one in bounded], steps)
    tail = math.fsum(one.tail for one in bounded)
    return min(added, epsilon_with_tail(curve, tail, delta))


def epsilon_with_tail(curve: RdpCurve, tail: float, delta: float) -> float:
    """Return ε at δ of what differs with probability ``tail`` from what has the curve.

    Infinite if no share of δ is room enough.
    """
    found = math.inf
    for share in SHARES:
        epsilon = curve.epsilon((1 - share) * delta)
        if epsilon < LARGEST and (1 + math.exp(epsilon)) * tail <= share * delta:
            found = min(found, epsilon)
    return found


def _at_one_order(run: FilteredRun) -> RdpCurve:
    return RdpCurve(np.array([run.order]), np.array([run.budget]))


def _sum(curves: Sequence[RdpCurve], steps: Sequence[Phase]) -> RdpCurve:
    """Return the divergences of all, at orders up to the largest known of each."""
    return reduce(RdpCurve.compose, curves, RdpCurve.of(steps))

"""ε of budgets, blind searches and planned steps together, on the same records.

Their Rényi divergences add up.  A search runs M trainings and releases the best of
min(K, M) of them.  This release differs from the release of the best of K with
probability τ = P(K > M), for all records.  So if all releases together are
(ε, δ')-private for uncut numbers of trials, they are (ε, δ' + (1 + e^ε) τ)-private for
cut ones, with τ the sum over the searches.

A budget is known at one order only, and τ has the weight 1 + e^ε.  Either can make the
sum of the divergences a poor bound.  So the values of ε are also added, each at a part
of δ, and the smaller result is returned.

Source: Mironov (2017), arXiv:1702.07476v3, Proposition 1; a divergence rises with its
order: van Erven and Harremoës (2014), theorem 3; τ: as ``padded_selection``; basic
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

#: Shares of δ that are tried for τ.
TAIL_SHARES = (0.0, 0.01, 0.03, 0.1, 0.3, 0.6, 0.9)
#: Largest ε whose exponential is a float.
MAX_EPSILON = 700.0


@dataclass(frozen=True)
class BoundedRelease:
    """A whole budget or a search, bounded by its Rényi divergences.

    Attributes:
        curve: Divergences, valid except in an event.
        tail: Probability of the event, which does not depend on the records.
        price: ε of the budget or search alone at ``delta``.
        delta: δ of the budget or search alone.
    """

    curve: RdpCurve
    tail: float
    price: float
    delta: float

    @classmethod
    def budget(cls, run: FilteredRun) -> BoundedRelease:
        """Returns a whole budget, known at one order."""
        return cls(_at_one_order(run), 0.0, run.epsilon, run.delta)

    @classmethod
    def search(cls, price: PaddedSelection) -> BoundedRelease:
        """Returns the winner of a blind search."""
        return cls(price.uncut, price.tail, price.epsilon, price.delta)

    def epsilon(self, delta: float) -> float:
        """Returns an upper bound on ε at δ; infinite without a bound."""
        if delta == self.delta:
            return self.price
        return epsilon_with_tail(self.curve, self.tail, delta)


def joint_epsilon(
    releases: Sequence[BoundedRelease],
    planned: Sequence[Phase],
    delta: float,
    epsilon_of_steps: Callable[[float], float],
) -> float:
    """Returns an upper bound on ε of budgets, searches and planned steps together.

    Args:
        releases: Budgets and searches, at least one.
        planned: Phases fixed beforehand; the list may be empty.
        delta: δ of all together, in (0, 1).
        epsilon_of_steps: Function from δ to ε of the planned steps alone, infinite if
            ε is unknown.

    Returns:
        Infinite without a bound.
    """
    steps = [phase for phase in planned if phase.steps]
    parts: list[Callable[[float], float]] = [x.epsilon for x in releases]
    if steps:
        parts.append(epsilon_of_steps)
    added = sum(epsilon(delta / len(parts)) for epsilon in parts)
    if len(parts) == 1:
        return added
    curve = _sum([release.curve for release in releases], steps)
    tail = math.fsum(release.tail for release in releases)
    return min(added, epsilon_with_tail(curve, tail, delta))


def epsilon_with_tail(curve: RdpCurve, tail: float, delta: float) -> float:
    """Returns ε at δ of a release that has a curve except in a rare event.

    Infinite if no share of δ in TAIL_SHARES is enough for the event.

    Args:
        curve: Divergences outside of the event.
        tail: Probability of the event.
        delta: In (0, 1).
    """
    least = math.inf
    for share in TAIL_SHARES:
        epsilon = curve.epsilon((1 - share) * delta)
        if epsilon < MAX_EPSILON and (1 + math.exp(epsilon)) * tail <= share * delta:
            least = min(least, epsilon)
    return least


def _at_one_order(run: FilteredRun) -> RdpCurve:
    return RdpCurve(np.array([run.order]), np.array([run.budget]))


def _sum(curves: Sequence[RdpCurve], steps: Sequence[Phase]) -> RdpCurve:
    """Returns the sum of all divergences, at orders at which each of them is known."""
    return reduce(RdpCurve.compose, curves, RdpCurve.of(steps))

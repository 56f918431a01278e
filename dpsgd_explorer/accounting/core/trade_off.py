"""The trade-off curve of a test for membership, from δ at several ε.

For one direction (a record is added, or removed), let D(x) be δ at ε = log x, for all
x > 0.  The best test with false positive rate α has the true positive rate

    TPR(α) = min over x of αx + D(x).

D is convex, falls from D(0) = 1, and D(x) = 1 - x + x D'(1/x), where D' belongs to the
other direction.  So δ at finitely many ε gives

- an upper bound: the minimum over their x;
- a lower bound: between two neighbouring x, D is above the extensions of the chords on
  either side.

Source: Dong, Roth and Su (2019), arXiv:1905.02383v3, Propositions 2.4 and 2.5.

Notation: E values of ε, V values of x, F false positive rates.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dpsgd_explorer.accounting.core.intervals import Floats
from dpsgd_explorer.accounting.core.tolerances import MAX_EXPONENT

Bounds = tuple[Floats, Floats]  # lower and upper, [E] each

#: Values of δ at which accountants without a curve of δ compute ε.
DELTAS = np.concatenate([np.geomspace(1e-9, 0.05, 24), np.arange(0.08, 1.0, 0.06)])
#: Values of ε at which the exact accountant computes δ, as shares of the largest ε.
EPSILON_SHARES = np.linspace(0.0, 1.0, 48) ** 1.5


def largest_rates(rates: Floats, epsilon: Callable[[float], float]) -> Floats:
    """Returns upper bounds of the true positive rates, from ε as a function of δ.

    Shapes: rates (false positive) [F] -> [F].
    """
    epsilons = np.array([epsilon(float(delta)) for delta in DELTAS])
    losses = np.minimum(epsilons, MAX_EXPONENT)
    return _upper_rates(rates, losses, np.where(losses < epsilons, 1.0, DELTAS))


def enclosed_rates(
    rates: Floats, losses: Floats, curve: Bounds, reverse: Bounds
) -> tuple[Floats, Floats]:
    """Returns lower and upper bounds of the largest true positive rates; [F], [F].

    Args:
        rates: False positive rates, [F].
        losses: Values of ε, ascending from 0, [E].
        curve: Lower and upper bounds of δ at each loss, in one direction.
        reverse: Lower and upper bounds of δ at each loss, in the other direction.
    """
    lower = np.maximum(
        _lower_rates(rates, losses, curve, reverse),
        _lower_rates(rates, losses, reverse, curve),
    )
    upper = _upper_rates(rates, losses, np.maximum(curve[1], reverse[1]))
    return np.minimum(np.maximum(lower, rates), upper), upper


def _upper_rates(rates: Floats, losses: Floats, deltas: Floats) -> Floats:
    """Returns the largest true positive rates under (ε, δ) in both directions; [F]."""
    high = np.exp(losses)[:, None] * rates + deltas[:, None]  # [E, F]
    low = 1 - np.exp(-losses)[:, None] * (1 - deltas[:, None] - rates)
    return np.asarray(np.minimum(np.minimum(high, low).min(axis=0), 1.0))


def _lower_rates(
    rates: Floats, losses: Floats, curve: Bounds, reverse: Bounds
) -> Floats:
    """Returns the true positive rates that tests of one direction reach; [F]."""
    away, mirrored = np.exp(losses), np.exp(-losses[:0:-1])
    rest = [1 - mirrored + mirrored * deltas[:0:-1] for deltas in reverse]
    x = np.concatenate([[0.0], mirrored, away])  # [V]
    lower = np.concatenate([[1.0], rest[0], curve[0]])
    upper = np.concatenate([[1.0], rest[1], curve[1]])
    keep = np.concatenate([[True], np.diff(x) > 0])
    x, lower, upper = x[keep], lower[keep], upper[keep]
    # Between x[i] and x[i + 1]: extended chords from the left, and from the right.
    falls = np.concatenate([[-1.0], (lower[1:] - upper[:-1]) / np.diff(x)])[:-1]
    rises = np.concatenate([(upper[2:] - lower[1:-1]) / np.diff(x)[1:], [0.0]])
    gap = lower[1:] - lower[:-1] - rises * np.diff(x)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = gap / (falls - rises)
    inside = np.isfinite(share) & (share > 0) & (share < np.diff(x))
    share = np.where(inside, share, 0.0)
    corners = x[:-1] + share, lower[:-1] + share * np.where(inside, falls, 0.0)
    points = np.concatenate([x, corners[0], x[-1:]])
    values = np.concatenate([lower, corners[1], [0.0]])
    return np.asarray((np.outer(points, rates) + values[:, None]).min(axis=0))

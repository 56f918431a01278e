"""Values at many places from a few of them: the polynomial through points of Chebyshev.

Source: Berrut and Trefethen (2004), SIAM Review 46(3), section 5: barycentric formula.

Notation: T places, K of them known.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dpsgd_explorer.accounting.core.accountant import Floats

POINTS = 12


def crowded(places: Floats) -> npt.NDArray[np.intp]:
    """Return indices of at most POINTS places that crowd at both ends; [T] -> [K]."""
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    share = 0.5 - 0.5 * np.cos(np.linspace(0, np.pi, POINTS))
    wanted = ordered[0] + share * (ordered[-1] - ordered[0])
    _, first = np.unique(ordered, return_index=True)
    nearest = np.searchsorted(ordered[first], wanted).clip(0, len(first) - 1)
    return np.asarray(order[first[np.unique(nearest)]])


def polynomial(places: Floats, known: npt.NDArray[np.intp], values: Floats) -> Floats:
    """Return the values at all places of the polynomial through some; [K] -> [T]."""
    at = places[known]
    width = float(at.max() - at.min()) or 1.0
    gaps = (at[:, None] - at) / width
    np.fill_diagonal(gaps, 1.0)
    distance = places[:, None] - at  # [T, K]
    hit = distance == 0
    weights = 1 / np.prod(gaps, axis=1) / np.where(hit, 1.0, distance)
    weights = np.where(hit.any(axis=1, keepdims=True), hit, weights)
    return np.asarray(weights @ values / weights.sum(axis=1))

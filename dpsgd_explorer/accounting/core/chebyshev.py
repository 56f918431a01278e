"""Chebyshev interpolation: values at many places from values at a few nodes.

Source: Berrut and Trefethen (2004), SIAM Review 46(3), section 5: barycentric formula.

Notation: T places, K nodes among them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dpsgd_explorer.accounting.core.accountant import Floats

POINTS = 12  # largest number of nodes


def chebyshev_nodes(places: Floats) -> npt.NDArray[np.intp]:
    """Return the indices of the places next to the Chebyshev nodes; [T] -> [K]."""
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    share = 0.5 - 0.5 * np.cos(np.linspace(0, np.pi, POINTS))
    wanted = ordered[0] + share * (ordered[-1] - ordered[0])
    _, first = np.unique(ordered, return_index=True)
    nearest = np.searchsorted(ordered[first], wanted).clip(0, len(first) - 1)
    return np.asarray(order[first[np.unique(nearest)]])


def interpolated(places: Floats, known: npt.NDArray[np.intp], values: Floats) -> Floats:
    """Return the values at all places of the polynomial through nodes; [K] -> [T]."""
    at = places[known]
    width = float(at.max() - at.min()) or 1.0
    gaps = (at[:, None] - at) / width
    np.fill_diagonal(gaps, 1.0)
    distance = places[:, None] - at  # [T, K]
    hit = distance == 0
    weights = 1 / np.prod(gaps, axis=1) / np.where(hit, 1.0, distance)
    weights = np.where(hit.any(axis=1, keepdims=True), hit, weights)
    return np.asarray(weights @ values / weights.sum(axis=1))

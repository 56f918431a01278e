"""Chebyshev interpolation: values at many points from values at a few nodes.

Source: Berrut and Trefethen (2004), SIAM Review 46(3), section 5: barycentric formula.

Notation: T points, K nodes among them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dpsgd_explorer.accounting.core.accountant import Floats

#: Largest number of nodes.
MAX_NODES = 12


def chebyshev_nodes(points: Floats) -> npt.NDArray[np.intp]:
    """Returns the indices of the points next to the Chebyshev nodes; [T] -> [K]."""
    order = np.argsort(points, kind="stable")
    ordered = points[order]
    share = 0.5 - 0.5 * np.cos(np.linspace(0, np.pi, MAX_NODES))
    ideal = ordered[0] + share * (ordered[-1] - ordered[0])
    _, first = np.unique(ordered, return_index=True)
    nearest = np.searchsorted(ordered[first], ideal).clip(0, len(first) - 1)
    return np.asarray(order[first[np.unique(nearest)]])


def interpolated(
    points: Floats, indices: npt.NDArray[np.intp], values: Floats
) -> Floats:
    """Returns the values of the polynomial through the nodes; [T], [K], [K] -> [T].

    Args:
        points: Arguments at which values are returned.
        indices: Indices of the nodes among the points.
        values: Values at the nodes.
    """
    nodes = points[indices]
    width = float(nodes.max() - nodes.min()) or 1.0
    gaps = (nodes[:, None] - nodes) / width
    np.fill_diagonal(gaps, 1.0)
    distance = points[:, None] - nodes  # [T, K]
    hit = distance == 0
    weights = 1 / np.prod(gaps, axis=1) / np.where(hit, 1.0, distance)
    weights = np.where(hit.any(axis=1, keepdims=True), hit, weights)
    return np.asarray(weights @ values / weights.sum(axis=1))

"""Rényi divergences of a replaced record: one Poisson-subsampled Gaussian step.

With v = z/σ and y(v) = log(1 - q + q w(v)) as for an added record (``core.log_space``),
the two neighbours' outputs have the densities e^y(v) and e^y(-v) over N(0, 1).  These
are mirror images, so that both directions are equal.  The moment of order α is
1 + E[g],

    g = e^(αℓ) - 1 - α (e^ℓ - 1) >= 0,    ℓ = y(v) - y(-v),    v ~ e^y(-v) N(0, 1),

summed as for an added record.  Where too many nodes are needed (large orders, little
noise), the smaller of two bounds is used.  Let P and Q be the two outputs, and S the
output without the record.  By Q >= (1 - q) S, and by joint convexity of the moments,

    R(α) <= R_removed(α) - log(1 - q),
    R(α) <= log(1 - q + q e^(2α (α - 1) / σ²)) / (α - 1).

Without sampling, the second bound is exact: a Gaussian with twice the sensitivity.

Source: the pair: as in ``exact.subsampled_gaussian``.

Notation: A orders, M nodes.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from dpsgd_explorer.accounting.core.accountant import Floats
from dpsgd_explorer.accounting.core.log_space import log_mixture
from dpsgd_explorer.accounting.core.tolerances import TOLERANCES
from dpsgd_explorer.accounting.rdp.subsampled_gaussian import (
    MIN_NOISE,
    MIN_RATE,
    ORDERS,
    REACH,
    log_excess,
    renyi_divergences,
)

#: Limits of ranges of orders: the orders of one range share their nodes.
ORDER_LIMITS = (11.0, 64.0, 300.0, 1024.0)
#: Largest number of nodes: orders that need more are bounded instead.
MAX_NODES = 20_000


@lru_cache(maxsize=4096)
def replaced_divergences(sample_rate: float, noise_multiplier: float) -> Floats:
    """Returns R(α) of one step for each of ORDERS, [A]; infinite without noise.

    Args:
        sample_rate: In (0, 1].
        noise_multiplier: At least 0, over the clipping bound.

    Returns:
        A read-only array: it is cached.
    """
    values = divergence_bounds(sample_rate, noise_multiplier)
    if sample_rate < 1 and noise_multiplier >= MIN_NOISE:
        rate = max(sample_rate, MIN_RATE)
        for part in shared_nodes(noise_multiplier):
            integrated = _integrated(rate, noise_multiplier, part)
            values[part] = np.minimum(
                values[part], integrated * (1 + TOLERANCES.rdp_integral)
            )
    values.flags.writeable = False
    return values


def convexity_bound(q: float, sigma: float) -> Floats:
    """Returns the bound by joint convexity, [A]; q and σ as above."""
    if sigma == 0:
        return np.full_like(ORDERS, math.inf)
    log_moments = 2 * ORDERS * (ORDERS - 1) / sigma / sigma
    if q < 1:
        large = np.logaddexp(math.log1p(-q), math.log(q) + log_moments)
        small = np.log1p(q * np.expm1(np.minimum(log_moments, 1.0)))
        log_moments = np.where(log_moments > 1, large, small)
    return np.asarray(log_moments / (ORDERS - 1))


def divergence_bounds(q: float, sigma: float) -> Floats:
    """Returns the smaller of the two bounds, [A]."""
    mixed = convexity_bound(q, sigma)
    if q == 1 or sigma == 0:
        return mixed
    removed = renyi_divergences(q, sigma) - math.log1p(-q)
    return np.asarray(np.minimum(mixed, removed))


def shared_nodes(sigma: float, density: int = 1) -> list[npt.NDArray[np.intp]]:
    """Returns indices of the orders that are integrated, one array per set of nodes.

    Args:
        sigma: Noise multiplier.
        density: Nodes per spacing of the trapezoid rule.
    """
    most = 0.5 * sigma * (MAX_NODES / density * _spacing(sigma) - 2 * REACH)
    parts = [
        np.flatnonzero((low < ORDERS) & (high >= ORDERS) & (most >= ORDERS))
        for low, high in zip((1.0, *ORDER_LIMITS), ORDER_LIMITS, strict=False)
    ]
    return [part for part in parts if len(part)]


def _integrated(q: float, sigma: float, part: npt.NDArray[np.intp]) -> Floats:
    """Returns R(α) at the orders with these indices, by the trapezoid rule."""
    orders = ORDERS[part]
    spacing = _spacing(sigma)
    top = max(2 * float(orders.max()), 2.0) / sigma + REACH
    v = np.arange(-REACH - 1 / sigma, top, spacing)  # [M]
    y, mirrored = log_mixture(v, q, sigma)[0], log_mixture(-v, q, sigma)[0]
    logs = log_excess(y - mirrored, mirrored - 0.5 * v * v, spacing, orders)
    return np.asarray(np.logaddexp(0.0, logs) / (orders - 1))


def _spacing(sigma: float) -> float:
    return 0.5 * min(max(sigma, 0.1), 1.0)

"""Rényi divergences of batches of fixed size: m of N records without replacement.

Neighbouring data sets differ by one replaced record, and q = m/N.  If a batch contains
the record, replacing it moves the sum by up to two clipping bounds: μ = 2/σ.  For every
ε >= 0 and in either direction, a step's privacy curve is at most the curve of the pair
P = (1 - q) N(0, 1) + q N(μ, 1) and Q = N(0, 1).  Some data reach this curve: all other
gradients are opposite to the record's gradient.

The largest curve with this property is its own mirror image.  Let y(v) be the privacy
loss of P over Q (``core.log_space``, with noise multiplier σ/2).  The largest curve
belongs to a loss that takes the values y > 0 with their probability under P, the values
-y with the probability of y under Q, and 0 otherwise.  Its moment of order α is
1 + E[g],

    E[g] = ∫ over y(v) > 0 of (g(y) + e^y g(-y)) φ(v) dv,
    g(ℓ) = e^(αℓ) - 1 - α (e^ℓ - 1) >= 0,

summed at Gauss' nodes, all terms positive.  Where too many nodes are needed (large
orders, little noise), joint convexity of the moments gives a bound: R(α) is at most
log(1 - q + q e^(2α (α - 1) / σ²)) / (α - 1).

Source: the curve: Balle, Barthe and Gaboardi (2018), arXiv:1807.01647v2, Theorem 9.
Differs: Wang, Balle and Kasiviswanathan (2019), arXiv:1808.00087v2, bound a divergence
by the mechanism's divergences at other orders, which is up to several times looser.

Notation: A orders, M nodes.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from dpsgd_explorer.accounting.core import validation as domains
from dpsgd_explorer.accounting.core.accountant import Floats, Phase
from dpsgd_explorer.accounting.core.log_space import log_mixture
from dpsgd_explorer.accounting.core.tolerances import TOLERANCES
from dpsgd_explorer.accounting.rdp.accountant import epsilon_from_rdp
from dpsgd_explorer.accounting.rdp.replaced_record import (
    convexity_bound,
    shared_nodes,
)
from dpsgd_explorer.accounting.rdp.subsampled_gaussian import (
    MIN_RATE,
    ORDERS,
    REACH,
    log_excess,
)

#: Gauss' nodes of one panel.
PANEL_NODES = 12
GAUSS_RULE = np.polynomial.legendre.leggauss(PANEL_NODES)
#: Noise multiplier below which the convexity bound is used.
MIN_NOISE = 0.1


def fixed_size_rdp_epsilon(
    sample_rate: float, noise_multiplier: float, steps: int, delta: float
) -> float:
    """Returns Rényi's bound on ε on batches of fixed size, for a replaced record.

    Args:
        sample_rate: Batch size over N, in (0, 1].
        noise_multiplier: Noise std over the clipping bound; 0 gives infinity.
        steps: At least 0.
        delta: In (0, 1).

    Raises:
        AccountingError: an argument is outside its domain.
    """
    run = Phase(sample_rate, noise_multiplier, steps)
    target = domains.delta(delta)
    if run.steps == 0:
        return 0.0
    rdp = run.steps * fixed_size_divergences(run.sample_rate, run.noise_multiplier)
    return float(epsilon_from_rdp(rdp, target))


@lru_cache(maxsize=1024)
def fixed_size_divergences(sample_rate: float, noise_multiplier: float) -> Floats:
    """Returns R(α) of one step for each of ORDERS, [A]; infinite without noise.

    Args:
        sample_rate: Batch size over N, in (0, 1].
        noise_multiplier: At least 0, over the clipping bound.

    Returns:
        A read-only array: it is cached.
    """
    values = convexity_bound(sample_rate, noise_multiplier)
    if noise_multiplier >= MIN_NOISE:
        rate = max(sample_rate, MIN_RATE)
        for part in shared_nodes(noise_multiplier, PANEL_NODES):
            integrated = _integrated(rate, noise_multiplier / 2, ORDERS[part])
            values[part] = np.minimum(
                values[part], integrated * (1 + TOLERANCES.rdp_integral)
            )
    values.flags.writeable = False
    return values


def _integrated(q: float, noise: float, orders: Floats) -> Floats:
    """Returns R(α) at some orders; noise is the noise std over 2 clipping bounds."""
    end = float(orders.max()) / noise + REACH
    v, log_weights = gauss_nodes(0.5 / noise, end, noise)
    y = log_mixture(v, q, noise)[0]
    normal = log_weights - 0.5 * v * v
    losses, weights = np.concatenate([y, -y]), np.concatenate([normal, normal + y])
    logs = log_excess(losses, weights, 1.0, orders)
    return np.asarray(np.logaddexp(0.0, logs) / (orders - 1))


def gauss_nodes(start: float, end: float, noise: float) -> tuple[Floats, Floats]:
    """Returns Gauss' nodes on short panels from `start`, and logs of their weights."""
    width = 0.5 * min(max(noise, 0.05), 1.0)
    panels = math.ceil((max(end, start) - start + 2 * REACH) / width)
    middles = start + width * (np.arange(panels) + 0.5)
    nodes, weights = GAUSS_RULE
    v: npt.NDArray[np.float64] = np.add.outer(middles, 0.5 * width * nodes).ravel()
    return v, np.tile(np.log(0.5 * width * weights), panels)

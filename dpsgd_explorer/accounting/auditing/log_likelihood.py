"""The score of a canary: the log-likelihood ratio of the releases along its direction.

Each canary's clipped gradient has norm L and a separate direction.  Along this
direction a step releases x ~ N(0, σ²) if the canary is not in the batch, and N(L, σ²)
if it is, in units of the clipping bound.  A member is in the batch with probability q,
so

    log-likelihood ratio = log(1 - q + q exp((2 L x - L²) / (2 σ²))).

The sum over the steps is the privacy loss of the pair that dominates all others; no
test separates members from others better (Neyman and Pearson, 1933).

If records are replaced, a canary that did not join has the opposite gradient, and the
log-likelihood ratio of this gradient is subtracted.

Source: Mironov, Talwar and Zhang (2019), arXiv:1908.10530, section 3.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from dpsgd_explorer.accounting.core.intervals import Floats
from dpsgd_explorer.accounting.core.neighboring_relation import (
    ADD_OR_REMOVE_ONE,
    NeighboringRelation,
)

#: Nodes of the quadrature over a step's release.
QUADRATURE_NODES = 200


def log_likelihood_ratio(
    released: Floats,
    sample_rate: float,
    noise_multiplier: float,
    norm: float = 1.0,
    relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
) -> Floats:
    """Returns the log-likelihood ratio of one step, [M].

    Args:
        released: Noisy sum along each canary's direction, over the bound, [M].
        sample_rate: Poisson inclusion probability q, in (0, 1].
        noise_multiplier: Noise std over the bound, above 0.
        norm: Norm of the canary's clipped gradient over the bound.
        relation: Neighbouring relation of the canaries.
    """
    terms = (sample_rate, noise_multiplier, norm)
    ratio = _against_noise(released, *terms)
    if relation is NeighboringRelation.REPLACE_ONE:
        ratio -= _against_noise(-released, *terms)
    return ratio


def _against_noise(x: Floats, q: float, sigma: float, norm: float) -> Floats:
    exponent = (2 * norm * x - norm**2) / (2 * sigma**2)
    if q == 1:
        return exponent
    return np.logaddexp(math.log1p(-q), math.log(q) + exponent)


def moments_of_others(
    sample_rate: float,
    noise_multiplier: float,
    norm: float = 1.0,
    relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
) -> tuple[float, float]:
    """Returns mean and variance of one step's ratio for a canary that did not join."""
    nodes, weights = _quadrature()
    x = noise_multiplier * nodes
    ratio = log_likelihood_ratio(x, sample_rate, noise_multiplier, norm, relation)
    if relation is NeighboringRelation.REPLACE_ONE:
        opposite = log_likelihood_ratio(
            x - norm, sample_rate, noise_multiplier, norm, relation
        )
        return _mixed(ratio, opposite, weights, sample_rate)
    mean = float(weights @ ratio)
    return mean, float(weights @ (ratio - mean) ** 2)


@cache
def _quadrature() -> tuple[Floats, Floats]:
    """Returns nodes of N(0, 1) and their weights, [QUADRATURE_NODES] each."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(QUADRATURE_NODES)
    return nodes, weights / weights.sum()


def _mixed(
    ratio: Floats, opposite: Floats, weights: Floats, q: float
) -> tuple[float, float]:
    mean = float(weights @ ((1 - q) * ratio + q * opposite))
    square = float(weights @ ((1 - q) * ratio**2 + q * opposite**2))
    return mean, square - mean**2

"""ε of one step at several δ: the input of the composition theorems.

With ε = μ (x + μ/2), log δ of one Gaussian is concave and decreasing in x.  Its
tangents are therefore above it: Newton's method, started right of the root, approaches
it from the safe side and never passes it.  Sampling turns ε' into
log(1 + q (e^ε' - 1)) and δ into qδ (``single_step``).

Source: of the amplification, Balle, Barthe and Gaboardi (2018), arXiv:1807.01647v2,
Theorem 8.
"""

from __future__ import annotations

import math

import numpy as np

from dpsgd_explorer.accounting.core.accountant import Floats, Phase
from dpsgd_explorer.accounting.core.gaussian import MAX_DERIVATIVE_MU, mills_ratio
from dpsgd_explorer.accounting.core.tolerances import MAX_EXPONENT, TOLERANCES

#: Newton steps of one search, which ends earlier when the moves are negligible.
MAX_NEWTON_STEPS = 60
#: Smallest x of the search: δ there differs from its largest value by less than 1e-23.
MIN_X = -10.0


def step_epsilons(phase: Phase, deltas: Floats) -> Floats:
    """Returns ε of one step of a phase at each δ in [0, 1); any shape.

    >>> step_epsilons(Phase(0.01, 1.0, 1), np.array([1e-5, 1e-8])).round(4)
    array([0.1995, 0.8394])

    Returns:
        Infinity where δ is 0, also by underflow, or without noise.
    """
    q, sigma = phase.sample_rate, phase.noise_multiplier
    if sigma == 0:
        return np.full(deltas.shape, math.inf)
    inner = _gaussian(np.minimum(deltas / q, 1.0), 1 / sigma)
    if q == 1:
        return inner
    with np.errstate(over="ignore", invalid="ignore"):
        near = np.log1p(q * np.expm1(np.minimum(inner, MAX_EXPONENT)))
        far = inner + math.log(q) + np.log1p((1 - q) / q * np.exp(-inner))
    return np.where(inner > MAX_EXPONENT, far, near)


def _gaussian(deltas: Floats, mu: float) -> Floats:
    """Returns ε >= 0 of N(0, 1) against N(μ, 1) at each δ in [0, 1]."""
    with np.errstate(divide="ignore", invalid="ignore"):
        targets = np.log(deltas)
        x = np.sqrt(-2 * targets)  # Chernoff's bound
    is_finite = np.isfinite(x)
    left = max(-mu / 2, MIN_X)
    for _ in range(MAX_NEWTON_STEPS):
        values, slopes = _log_delta(x[is_finite], mu)
        moves = (values - targets[is_finite]) / slopes
        x[is_finite] = np.maximum(x[is_finite] - np.maximum(moves, 0.0), left)
        if not np.any(moves > TOLERANCES.newton_step):
            break
    epsilons = np.where(is_finite, np.maximum(mu * (x + mu / 2), 0.0), math.inf)
    return np.where(deltas == 1, 0.0, epsilons)


def _log_delta(x: Floats, mu: float) -> tuple[Floats, Floats]:
    """Returns log δ at ε = μ (x + μ/2), and its derivative by x."""
    far = mills_ratio(x + mu)
    middle = x + mu / 2
    is_small = mu < MAX_DERIVATIVE_MU  # the difference of two ratios would lose digits
    gap = mu * (1 - middle * mills_ratio(middle)) if is_small else mills_ratio(x) - far
    return -0.5 * x * x - 0.5 * math.log(2 * math.pi) + np.log(gap), -mu * far / gap

"""ε of one step at many δ at once: what the composition theorems are fed with.

The curve of one Gaussian, log δ(x) of ``gaussian``, is concave and decreasing in x.
Its tangents therefore lie above it: Newton's method, started right of the root, comes
down to it from the safe side and never passes it.  Sampling then turns ε' into
log(1 + q (e^ε' - 1)) and δ into qδ (``single_step``).

Source: of the amplification, Balle, Barthe and Gaboardi (2018), arXiv:1807.01647v2,
Theorem 8.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import erfcx

from dpsgd_explorer.accounting.core.accountant import Floats, Phase
from dpsgd_explorer.accounting.core.gaussian import SMALL_MU

ITERATIONS = 60
CONVERGED = 1e-13
LEFT_END = -10.0  # δ(-10) differs from its largest value by less than 1e-23
LARGEST = 700.0  # whose exponential is a float


def step_epsilons(phase: Phase, deltas: Floats) -> Floats:
    """Return ε of one step of a phase at each δ in [0, 1); any shape.

    Returns:
        Infinity where δ is 0, as numbers too small for a float are, or without noise.
    """
    q, sigma = phase.sample_rate, phase.noise_multiplier
    if sigma == 0:
        return np.full(deltas.shape, math.inf)
    inner = _gaussian(np.minimum(deltas / q, 1.0), 1 / sigma)
    if q == 1:
        return inner
    with np.errstate(over="ignore", invalid="ignore"):
        near = np.log1p(q * np.expm1(np.minimum(inner, LARGEST)))
        far = inner + math.log(q) + np.log1p((1 - q) / q * np.exp(-inner))
    return np.where(inner > LARGEST, far, near)


def _gaussian(deltas: Floats, mu: float) -> Floats:
    """Return ε >= 0 of N(0, 1) against N(μ, 1) at each δ in [0, 1]."""
    with np.errstate(divide="ignore", invalid="ignore"):
        targets = np.log(deltas)
        x = np.sqrt(-2 * targets)  # Chernoff's bound
    open_ = np.isfinite(x)
    left = max(-mu / 2, LEFT_END)
    for _ in range(ITERATIONS):
        values, slopes = _log_delta(x[open_], mu)
        moves = (values - targets[open_]) / slopes
        x[open_] = np.maximum(x[open_] - np.maximum(moves, 0.0), left)
        if not np.any(moves > CONVERGED):
            break
    found = np.where(open_, np.maximum(mu * (x + mu / 2), 0.0), math.inf)
    return np.where(deltas == 1, 0.0, found)


def _log_delta(x: Floats, mu: float) -> tuple[Floats, Floats]:
    """Return log δ at ε = μ (x + μ/2), and its derivative by x."""
    far = _mills(x + mu)
    middle = x + mu / 2
    small = mu < SMALL_MU
    gap = mu * (1 - middle * _mills(middle)) if small else _mills(x) - far
    return -0.5 * x * x - 0.5 * math.log(2 * math.pi) + np.log(gap), -mu * far / gap


def _mills(x: Floats) -> Floats:
    return math.sqrt(math.pi / 2) * np.asarray(erfcx(x / math.sqrt(2)))

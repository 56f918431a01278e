"""One step on a Poisson sample, in closed form.

With γ = e^ε and δ_G the curve of one Gaussian on all records, adding or removing gives

    δ(ε) = q δ_G(ε'),    e^ε' = 1 + (γ - 1) / q,

the value of "remove".  "Add" is never larger: it is (1 - γ (1 - q)) δ_G(ε'') with
e^ε'' = γq / (1 - γ (1 - q)) >= e^ε', while 1 - γ (1 - q) <= q.

Replacing one record compares (1 - q) N(0, σ²) + q N(1, σ²) with its mirror image; they
cross at the z with w = e^((2z - 1) / 2σ²), the positive root of

    q w² - (1 - q) (γ - 1) w - γ q e^(-1/σ²) = 0.

Source: Balle, Barthe and Gaboardi (2018), arXiv:1807.01647v2, Theorem 8, for remove.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy.special import erfcx, log_ndtr, ndtr

from dpsgd_explorer.accounting.core.gaussian import (
    delta_of_mu,
    deltas_of_mu,
    epsilon_of_mu,
)
from dpsgd_explorer.accounting.core.log_space import log_expm1
from dpsgd_explorer.accounting.core.root_finding import first_safe

Floats = npt.NDArray[np.float64]

EPS = float(np.finfo(float).eps)
LARGEST = 700.0  # whose exponential is a float
LITTLE_NOISE = 1e-3  # with less, a replaced record's ε is above 5e5


def single_step_delta(q: float, sigma: float, epsilon: float, relation: str) -> float:
    """Return δ at epsilon >= 0 of one step, q in (0, 1), sigma > 0."""
    if relation == "replace_one":
        return _replaced(q, sigma, epsilon)
    if epsilon > 1:
        inner = epsilon - math.log(q) + math.log1p(-(1 - q) * math.exp(-epsilon))
    else:
        inner = math.log1p(math.expm1(epsilon) / q)
    return q * delta_of_mu(inner, 1 / sigma)


def single_step_epsilon(q: float, sigma: float, delta: float, relation: str) -> float:
    """Return ε at delta of one step, rounded up, q in (0, 1), sigma > 0."""
    if relation == "replace_one":
        return _replaced_epsilon(q, sigma, delta)
    inner = epsilon_of_mu(delta / q, 1 / sigma) if delta < q else 0.0
    if inner > LARGEST:
        return inner + math.log(q) + math.log1p((1 - q) / q * math.exp(-inner))
    return math.log1p(q * math.expm1(inner))


def _replaced(q: float, sigma: float, epsilon: float) -> float:
    return float(_swapped(q, sigma, np.array([epsilon]))[0])


def _replaced_epsilon(q: float, sigma: float, delta: float) -> float:
    if _replaced(q, sigma, 0.0) <= delta:
        return 0.0
    high = epsilon_of_mu(delta, 2 / sigma)  # without sampling it is no less
    if _replaced(q, sigma, high) > delta:
        return high
    return first_safe(lambda x: _replaced(q, sigma, x) - delta, 0.0, high)


def _removed(q: float, sigma: float, epsilons: Floats) -> Floats:
    """Return δ of the step with the record against that without; any ε; [K] -> [K]."""
    gain = np.expm1(np.minimum(epsilons, 1.0))  # γ - 1
    near = np.log1p(np.maximum(gain / q, -1 + EPS / 2))
    far = epsilons - math.log(q) + np.log1p((q - 1) * np.exp(-np.maximum(epsilons, 0)))
    inner = np.where(epsilons > 1, far, near)
    return np.where(gain > -q, q * deltas_of_mu(inner, 1 / sigma), -gain)


def _added(q: float, sigma: float, epsilons: Floats) -> Floats:
    """Return the same the other way round."""
    left = -np.expm1(np.minimum(epsilons + math.log1p(-q), 0.0))  # 1 - γ (1 - q)
    with np.errstate(divide="ignore"):
        inner = epsilons + math.log(q) - np.log(left)
    return np.where(left > 0, left * deltas_of_mu(inner, 1 / sigma), 0.0)


def _swapped(q: float, sigma: float, epsilons: Floats) -> Floats:
    """Return δ of the step with a replaced record; its pair is its own mirror image.

    All in logarithms: e^(-1/σ²) and γ are floats only for some noise.  Where ε is so
    large that its round-off matters, what is subtracted is bounded from below: at the
    crossing the densities agree, and Mills' ratio M falls.
    """
    size = np.abs(epsilons)
    with np.errstate(divide="ignore"):
        log_gain = log_expm1(size)  # log(γ - 1)
    half = log_gain + math.log1p(-q) - math.log(2 * q)
    mirror = size / 2 - 0.5 / sigma**2
    log_w = np.logaddexp(half, 0.5 * np.logaddexp(2 * half, 2 * mirror))
    z = sigma * log_w + 0.5 / sigma
    away = z - 1 / sigma
    with np.errstate(under="ignore"):
        if sigma < LITTLE_NOISE:
            missed = _density(away) * _mills(z + 1 / sigma)
        else:
            both = np.exp(log_gain + log_ndtr(-z)) * ((1 - q) / q)
            missed = np.exp(size + log_ndtr(-1 / sigma - z)) + both
        positive = q * np.maximum(ndtr(-away) - missed, 0.0)
    mirrored = -np.expm1(-size) + np.exp(-size) * positive
    return np.asarray(np.where(epsilons < 0, mirrored, positive))


def _density(x: Floats) -> Floats:
    return np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)


def _mills(x: Floats) -> Floats:
    return math.sqrt(math.pi / 2) * np.asarray(erfcx(x / math.sqrt(2)))


STEP_CURVES: dict[str, Callable[[float, float, Floats], Floats]] = {
    "remove": _removed,
    "add": _added,
    "replace": _swapped,
}

"""One step in closed form: on a Poisson sample, or on all records.

With γ = e^ε and δ_G the privacy curve of one Gaussian step on all records:

**Remove.**  δ(ε) = q δ_G(ε') with e^ε' = 1 + (γ - 1) / q.

**Add.**  δ(ε) = (1 - γ (1 - q)) δ_G(ε'') with e^ε'' = γq / (1 - γ (1 - q)).  This is
never larger for ε >= 0, since ε'' >= ε' and 1 - γ (1 - q) <= q.

**Replace.**  The pair is (1 - q) N(0, σ²) + q N(1, σ²) and its mirror image, so that
both directions have the same curve.  Their densities have the ratio γ at the z with
w = e^((2z - 1) / 2σ²), the positive root of

    q w² - (1 - q) (γ - 1) w - γ q e^(-1/σ²) = 0.

Source: Balle, Barthe and Gaboardi (2018), arXiv:1807.01647v2, Theorem 8, for remove.

Notation: K values of ε.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import scipy

from dpsgd_explorer.accounting.core.accountant import Floats
from dpsgd_explorer.accounting.core.gaussian import (
    delta_of_mu,
    deltas_of_mu,
    epsilon_of_mu,
    mills_ratio,
)
from dpsgd_explorer.accounting.core.log_space import log_expm1
from dpsgd_explorer.accounting.core.neighboring_relation import (
    REPLACE_ONE,
    NeighboringRelation,
)
from dpsgd_explorer.accounting.core.root_finding import first_safe
from dpsgd_explorer.accounting.core.tolerances import MACHINE_EPSILON, MAX_EXPONENT

#: Noise multiplier below which ε of a replaced record exceeds 5e5, and the round-off
#: of ε matters.
MIN_EXACT_NOISE = 1e-3


def single_step_delta(
    q: float, sigma: float, epsilon: float, relation: NeighboringRelation
) -> float:
    """Returns δ at ε of one step, in the direction with the larger δ.

    Args:
        q: Sample rate, in (0, 1].
        sigma: Noise std over the clipping bound, greater than 0.
        epsilon: At least 0.
        relation: The difference between neighbouring data sets.
    """
    if q == 1:
        return delta_of_mu(epsilon, relation.sensitivity / sigma)
    if relation == REPLACE_ONE:
        return _replace_delta(q, sigma, epsilon)
    if epsilon > 1:  # log(1 + (γ - 1) / q) without γ, which may overflow
        inner = epsilon - math.log(q) + math.log1p(-(1 - q) * math.exp(-epsilon))
    else:
        inner = math.log1p(math.expm1(epsilon) / q)
    return q * delta_of_mu(inner, 1 / sigma)


def single_step_epsilon(
    q: float, sigma: float, delta: float, relation: NeighboringRelation
) -> float:
    """Returns ε at δ of one step, in the direction with the larger ε, rounded up.

    For a batch of 256 of 60,000 with σ = 1.1 at δ = 1e-5; on all records ε = 3.92:

    >>> relation = NeighboringRelation.ADD_OR_REMOVE_ONE
    >>> round(single_step_epsilon(256 / 60_000, 1.1, 1e-5, relation), 6)
    0.048342

    Args:
        q: Sample rate, in (0, 1].
        sigma: Noise std over the clipping bound, greater than 0.
        delta: In (0, 1).
        relation: The difference between neighbouring data sets.
    """
    if q == 1:
        return epsilon_of_mu(delta, relation.sensitivity / sigma)
    if relation == REPLACE_ONE:
        return _replace_epsilon(q, sigma, delta)
    inner = epsilon_of_mu(delta / q, 1 / sigma) if delta < q else 0.0
    if inner > MAX_EXPONENT:
        return inner + math.log(q) + math.log1p((1 - q) / q * math.exp(-inner))
    return math.log1p(q * math.expm1(inner))


def _replace_delta(q: float, sigma: float, epsilon: float) -> float:
    return float(_replace_deltas(q, sigma, np.array([epsilon]))[0])


def _replace_epsilon(q: float, sigma: float, delta: float) -> float:
    if _replace_delta(q, sigma, 0.0) <= delta:
        return 0.0
    high = epsilon_of_mu(delta, 2 / sigma)  # of a step on all records: an upper bound
    if _replace_delta(q, sigma, high) > delta:
        return high
    return first_safe(lambda x: _replace_delta(q, sigma, x) - delta, 0.0, high)


def _remove_deltas(q: float, sigma: float, epsilons: Floats) -> Floats:
    """Returns δ of the output with the record against the output without it.

    Shapes: epsilons [K], of either sign -> [K].

    For e^ε <= 1 - q the loss exceeds ε for certain, and δ = 1 - e^ε.
    """
    gain = np.expm1(np.minimum(epsilons, 1.0))  # γ - 1
    near = np.log1p(np.maximum(gain / q, -1 + MACHINE_EPSILON / 2))
    far = epsilons - math.log(q) + np.log1p((q - 1) * np.exp(-np.maximum(epsilons, 0)))
    inner = np.where(epsilons > 1, far, near)
    return np.where(gain > -q, q * deltas_of_mu(inner, 1 / sigma), -gain)


def _add_deltas(q: float, sigma: float, epsilons: Floats) -> Floats:
    """Returns δ of the output without the record against the output with it.

    Shapes: epsilons [K], of either sign -> [K].

    The loss is less than -log(1 - q), so δ = 0 for larger ε.
    """
    rest = -np.expm1(np.minimum(epsilons + math.log1p(-q), 0.0))  # 1 - γ (1 - q)
    with np.errstate(divide="ignore"):
        inner = epsilons + math.log(q) - np.log(rest)
    return np.where(rest > 0, rest * deltas_of_mu(inner, 1 / sigma), 0.0)


def _replace_deltas(q: float, sigma: float, epsilons: Floats) -> Floats:
    """Returns δ with a replaced record.

    Shapes: epsilons [K], of either sign -> [K].

    With z in units of σ, δ(ε) = q (Φ(1/σ - z) - r) for ε >= 0, where

        q r = γ q Φ(-1/σ - z) + (γ - 1) (1 - q) Φ(-z).

    The terms are computed as logarithms, since e^(-1/σ²) and γ are floats only for some
    noise.  Where ε is so large that its round-off matters, r is bounded from below by
    φ(z - 1/σ) M(z + 1/σ): the densities agree at z, and Mills' ratio M falls.
    """
    size = np.abs(epsilons)
    log_gain = log_expm1(size)  # log(γ - 1)
    half = log_gain + math.log1p(-q) - math.log(2 * q)
    mirror = size / 2 - 0.5 / sigma**2
    log_w = np.logaddexp(half, 0.5 * np.logaddexp(2 * half, 2 * mirror))
    z = sigma * log_w + 0.5 / sigma
    distance = z - 1 / sigma
    with np.errstate(under="ignore"):
        if sigma < MIN_EXACT_NOISE:
            rest = _density(distance) * mills_ratio(z + 1 / sigma)
        else:
            common = np.exp(log_gain + scipy.special.log_ndtr(-z)) * ((1 - q) / q)
            rest = np.exp(size + scipy.special.log_ndtr(-1 / sigma - z)) + common
        positive = q * np.maximum(scipy.special.ndtr(-distance) - rest, 0.0)
    mirrored = -np.expm1(-size) + np.exp(-size) * positive
    return np.asarray(np.where(epsilons < 0, mirrored, positive))


def _density(x: Floats) -> Floats:
    return np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)


#: δ of one step at ε of either sign, by direction.
STEP_CURVES: dict[str, Callable[[float, float, Floats], Floats]] = {
    "remove": _remove_deltas,
    "add": _add_deltas,
    "replace": _replace_deltas,
}

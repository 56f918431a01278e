"""k randomized responses with ε₀ each: the worst k steps that are (ε₀, 0).

With N ~ Bin(k, p), p = e^ε₀ / (1 + e^ε₀), the privacy loss is ε₀ (2N - k), and its
mirror image for a neighbour.  With m the least N whose loss exceeds ε,

    δ(ε) = P(N >= m) - e^ε Q(N >= m),    Q = Bin(k, 1 - p).

Both are incomplete beta functions.  For small ε₀ √k they are nearly equal; then

    δ(ε) = ∫ (m/t) Bin(k, t)(m) dt - (e^ε - 1) Q(N >= m),    t from 1 - p to p,

keeps the digits.  Where a float is too small for Q, δ is taken as P: never too small.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import betainc, expit, gammaln

from dpsgd_explorer.accounting.core.accountant import Floats

NARROW = 0.1  # ε₀ √k below which P - Q is integrated
POINTS, WEIGHTS = np.polynomial.legendre.leggauss(8)
LARGE = 16  # from which Stirling's series serves
ROUND_OFF = 1e-9  # relative, of δ, generously
LARGEST = 300.0  # ε₀, above which the ε of all steps are just added
ITERATIONS = 100
CONVERGED = 1e-13


def composed_epsilons(steps: Floats, losses: Floats, slack: Floats) -> Floats:
    """Return the least ε at which so many responses keep δ = slack, rounded up.

    Shapes: all [...] -> [...].  All at least 0, slack in (0, 1).
    """
    shape = steps.shape
    k, loss, target = (np.ravel(x).astype(float) for x in (steps, losses, slack))
    result = k * loss  # δ = 0
    result[loss == 0] = 0.0
    inside = np.flatnonzero((loss > 0) & (loss < LARGEST) & (k > 0) & (target > 0))
    k, loss, target = k[inside], loss[inside], target[inside] * (1 - ROUND_OFF)
    result[inside] = _solve(k, loss, np.log(target))
    return np.asarray(result.reshape(shape))


def _solve(k: Floats, loss: Floats, log_target: Floats) -> Floats:
    """Return the right end of the bracket that Newton's method, kept in it, leaves."""
    low, high = np.zeros_like(k), k * loss
    at_zero, _ = log_delta(k, loss, low)
    high = np.where(at_zero <= log_target, 0.0, high)
    spread = np.sqrt(k) * loss / np.cosh(loss / 2)
    x = k * loss * np.tanh(loss / 2) + spread * np.sqrt(-2 * log_target)
    x = np.where(x < high, x, 0.5 * high)
    left = np.flatnonzero(high > 0)
    for _ in range(ITERATIONS):
        if not left.size:
            break
        value, slope = log_delta(k[left], loss[left], x[left])
        safe = value <= log_target[left]
        high[left[safe]] = x[left[safe]]
        low[left[~safe]] = x[left[~safe]]
        with np.errstate(divide="ignore", invalid="ignore"):
            step = (log_target[left] - value) / slope
        tiny = CONVERGED * x[left]
        new = x[left] + step + tiny  # to the safe side of the root
        out = ~((new > low[left]) & (new < high[left]))
        new[out] = 0.5 * (low[left] + high[left])[out]
        done = (high - low)[left] <= 4 * CONVERGED * high[left]
        done |= safe & (np.abs(step) <= 4 * tiny)
        x[left] = new
        left = left[~done]
    return high


def log_delta(k: Floats, loss: Floats, epsilon: Floats) -> tuple[Floats, Floats]:
    """Return log δ at ε from 0 to kε₀, and its derivative; all [n]."""
    m = np.minimum(np.floor((epsilon / loss + k) / 2) + 1, k)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        beyond = betainc(m, k - m + 1, expit(-loss))  # Q
        scaled = np.exp(epsilon + np.log(beyond))  # e^ε Q
        value = betainc(m, k - m + 1, expit(loss)) - scaled
        narrow = np.flatnonzero(loss * np.sqrt(k) < NARROW)
        gap = _gap(k[narrow], loss[narrow], m[narrow])
        value[narrow] = gap - np.expm1(epsilon[narrow]) * beyond[narrow]
        value = np.maximum(value, 0.0)
        return np.log(value), -scaled / value


def _gap(k: Floats, loss: Floats, m: Floats) -> Floats:
    """Return P(N >= m) - Q(N >= m) for a narrow range of probabilities; all [n]."""
    half = np.tanh(loss / 2)[:, None] / 2
    t = 0.5 + half * POINTS  # [n, points]
    logs = _log_binomial(k[:, None], m[:, None], t)
    return np.asarray((np.exp(logs) * (m[:, None] / t) * half) @ WEIGHTS)


def _log_binomial(k: Floats, m: Floats, t: Floats) -> Floats:
    """Return log of the probability of m among k.

    Source: Loader (2000), Fast and accurate computation of binomial probabilities.
    """
    small = np.minimum(m, k - m) < LARGE
    direct = gammaln(k + 1) - gammaln(m + 1) - gammaln(k - m + 1)
    direct = direct + m * np.log(t) + (k - m) * np.log1p(-t)
    m, rest = np.where(small, k / 2, m), np.where(small, k / 2, k - m)
    series = _stirling(k) - _stirling(m) - _stirling(rest)
    series = series - _deviance(m, k * t) - _deviance(rest, k * (1 - t))
    series = series + 0.5 * np.log(k / (2 * math.pi * m * rest))
    return np.where(small, direct, series)


def _stirling(n: Floats) -> Floats:
    """Return log n! less Stirling's formula, for large n."""
    square = 1 / (n * n)
    return (1 / 12 - (1 / 360 - (1 / 1260 - square / 1680) * square) * square) / n


def _deviance(x: Floats, mean: Floats) -> Floats:
    """Return x log(x / mean) + mean - x."""
    share = (x - mean) / mean
    return mean * ((1 + share) * np.log1p(share) - share)

"""k randomized responses with ε₀ each: the worst k steps that are (ε₀, 0).

With N ~ Bin(k, p), p = e^ε₀ / (1 + e^ε₀), the privacy loss is ε₀ (2N - k), and its
mirror image for a neighbour.  With m the least N whose loss exceeds ε,

    δ(ε) = P(N >= m) - e^ε Q(N >= m),    Q = Bin(k, 1 - p).

Both are incomplete beta functions.  For small ε₀ √k they are nearly equal, and

    δ(ε) = ∫ (m/t) Bin(k, t)(m) dt - (e^ε - 1) Q(N >= m),    t from 1 - p to p,

keeps the digits.  If Q is too small for a float, δ is computed as P, which is an upper
bound.
"""

from __future__ import annotations

import math

import numpy as np
import scipy

from dpsgd_explorer.accounting.core.accountant import Floats
from dpsgd_explorer.accounting.core.tolerances import TOLERANCES

#: ε₀ √k below which P - Q is integrated, since their difference would lose digits.
MAX_INTEGRATED_LOSS = 0.1
NODES, WEIGHTS = np.polynomial.legendre.leggauss(8)
#: Smallest n for which log n! is computed by Stirling's series.
MIN_STIRLING_NUMBER = 16
#: ε₀ above which basic composition is used.
MAX_LOSS = 300.0
MAX_NEWTON_STEPS = 100


def composed_epsilons(steps: Floats, losses: Floats, deltas: Floats) -> Floats:
    """Returns ε of k randomized responses at δ, rounded up.

    100 responses with ε₀ = 0.1, at δ = 1e-5; basic composition gives 10:

    >>> one = np.ones(1)
    >>> float(composed_epsilons(100 * one, 0.1 * one, 1e-5 * one)[0].round(4))
    4.3068

    Shapes: all [...] -> [...].

    Args:
        steps: k, at least 0.
        losses: ε₀, at least 0.
        deltas: δ, in [0, 1).
    """
    shape = steps.shape
    k, loss, target = (np.ravel(x).astype(float) for x in (steps, losses, deltas))
    result = k * loss  # ε at δ = 0
    result[loss == 0] = 0.0
    inside = np.flatnonzero((loss > 0) & (loss < MAX_LOSS) & (k > 0) & (target > 0))
    k, loss, target = (
        k[inside],
        loss[inside],
        target[inside] * (1 - TOLERANCES.binomial_delta),
    )
    result[inside] = _solve(k, loss, np.log(target))
    return np.asarray(result.reshape(shape))


def _solve(k: Floats, loss: Floats, log_target: Floats) -> Floats:
    """Returns the upper end of the bracket around the root, after Newton's method."""
    low, high = np.zeros_like(k), k * loss
    at_zero, _ = log_delta(k, loss, low)
    high = np.where(at_zero <= log_target, 0.0, high)
    spread = np.sqrt(k) * loss / np.cosh(loss / 2)
    x = k * loss * np.tanh(loss / 2) + spread * np.sqrt(-2 * log_target)
    x = np.where(x < high, x, 0.5 * high)
    rows = np.flatnonzero(high > 0)
    for _ in range(MAX_NEWTON_STEPS):
        if not rows.size:
            break
        value, slope = log_delta(k[rows], loss[rows], x[rows])
        safe = value <= log_target[rows]
        high[rows[safe]] = x[rows[safe]]
        low[rows[~safe]] = x[rows[~safe]]
        with np.errstate(divide="ignore", invalid="ignore"):
            step = (log_target[rows] - value) / slope
        tiny = TOLERANCES.newton_step * x[rows]
        new = x[rows] + step + tiny  # to the safe side of the root
        out = ~((new > low[rows]) & (new < high[rows]))
        new[out] = 0.5 * (low[rows] + high[rows])[out]
        done = (high - low)[rows] <= 4 * TOLERANCES.newton_step * high[rows]
        done |= safe & (np.abs(step) <= 4 * tiny)
        x[rows] = new
        rows = rows[~done]
    return high


def log_delta(k: Floats, loss: Floats, epsilon: Floats) -> tuple[Floats, Floats]:
    """Returns log δ at ε from 0 to kε₀, and its derivative; all [n]."""
    m = np.minimum(np.floor((epsilon / loss + k) / 2) + 1, k)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        beyond = scipy.special.betainc(m, k - m + 1, scipy.special.expit(-loss))  # Q
        scaled = np.exp(epsilon + np.log(beyond))  # e^ε Q
        value = scipy.special.betainc(m, k - m + 1, scipy.special.expit(loss)) - scaled
        small = np.flatnonzero(loss * np.sqrt(k) < MAX_INTEGRATED_LOSS)
        gap = _gap(k[small], loss[small], m[small])
        value[small] = gap - np.expm1(epsilon[small]) * beyond[small]
        value = np.maximum(value, 0.0)
        return np.log(value), -scaled / value


def _gap(k: Floats, loss: Floats, m: Floats) -> Floats:
    """Returns P(N >= m) - Q(N >= m) for a narrow range of probabilities; all [n]."""
    half = np.tanh(loss / 2)[:, None] / 2
    t = 0.5 + half * NODES  # [n, nodes]
    logs = _log_binomial(k[:, None], m[:, None], t)
    return np.asarray((np.exp(logs) * (m[:, None] / t) * half) @ WEIGHTS)


def _log_binomial(k: Floats, m: Floats, t: Floats) -> Floats:
    """Returns log of the probability of m among k.

    Source: Loader (2000), Fast and accurate computation of binomial probabilities.
    """
    small = np.minimum(m, k - m) < MIN_STIRLING_NUMBER
    gammaln = scipy.special.gammaln
    direct = gammaln(k + 1) - gammaln(m + 1) - gammaln(k - m + 1)
    direct = direct + m * np.log(t) + (k - m) * np.log1p(-t)
    m, rest = np.where(small, k / 2, m), np.where(small, k / 2, k - m)
    series = _stirling(k) - _stirling(m) - _stirling(rest)
    series = series - _deviance(m, k * t) - _deviance(rest, k * (1 - t))
    series = series + 0.5 * np.log(k / (2 * math.pi * m * rest))
    return np.where(small, direct, series)


def _stirling(n: Floats) -> Floats:
    """Returns log n! less Stirling's formula, for large n."""
    square = 1 / (n * n)
    return (1 / 12 - (1 / 360 - (1 / 1260 - square / 1680) * square) * square) / n


def _deviance(x: Floats, mean: Floats) -> Floats:
    """Returns x log(x / mean) + mean - x."""
    share = (x - mean) / mean
    return mean * ((1 + share) * np.log1p(share) - share)

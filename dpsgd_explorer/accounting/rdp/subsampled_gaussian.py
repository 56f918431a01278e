"""Rényi divergences of one Poisson-subsampled Gaussian step.

Without the record the noisy sum is P = N(0, σ²); with it, (1 - q) P + q N(1, σ²).
Let w(z) = e^((2z - 1) / 2σ²) be the ratio of the two Gaussians and x = q (w - 1).
Then the divergence of order α > 1, in the larger of the two directions, is

    R(α) = log E[(1 + x)^α] / (α - 1),    z ~ P.

As E[x] = 0, the moment is 1 + E[g] with g = (1 + x)^α - 1 - αx >= 0.  The sum is
over g, never over the moment: all terms are positive and nothing cancels, so that a
divergence of 1e-30 is as accurate as a divergence of 10.

Three evaluations of log E[g], each where it is exact and cheap:

| orders | method |
|---|---|
| integer | the binomial series from degree 2 on |
| fractional | trapezoid rule in u = z / σ |
| any, q = 1 or very little noise | ‖1 + x‖_α <= (1 - q) + q ‖w‖_α, equal for q = 1 |

The integrand is analytic for |Im u| < πσ, so the error of the trapezoid rule falls as
e^(-2π² σ / spacing), below double precision for the spacing taken here.

Source: Mironov, Talwar and Zhang (2019), arXiv:1908.10530v1, section 3.
Differs: for fractional orders they sum two alternating series, which lose digits where
q is near 1/2 or the divergence is tiny.
"""

from __future__ import annotations

import math
from functools import cache, lru_cache

import numpy as np
import scipy

from dpsgd_explorer.accounting.core.accountant import Floats
from dpsgd_explorer.accounting.core.log_space import (
    log_expm1,
    log_mixture,
    log_sum_segments,
)

_ORDERS_NEAR_ONE = [1.01, 1.02, 1.03, 1.05, 1.07]
_ORDERS_BY_TENTHS = [i / 10 for i in range(11, 110) if i % 10]
_LARGE_ORDERS = [*dict.fromkeys(np.geomspace(64, 1024, 49).round())]
FRACTIONAL_ORDERS = np.array([*_ORDERS_NEAR_ONE, *_ORDERS_BY_TENTHS])
INTEGER_ORDERS = np.array([*range(2, 64), *_LARGE_ORDERS])
#: Orders of the Rényi accountant, [A].
ORDERS = np.concatenate([FRACTIONAL_ORDERS, INTEGER_ORDERS])

#: Noise multiplier below which the norm bound is used.
MIN_NOISE = 0.05
#: Smaller sample rates count as this: their squares underflow, and R(α) rises with q.
MIN_RATE = 1e-100

# The binomial series of all integer orders in one array: terms 2 ... α of each order.
_LENGTHS = INTEGER_ORDERS.astype(np.intp) - 1
_STARTS = np.cumsum(_LENGTHS) - _LENGTHS
_TERM_ORDERS = np.repeat(INTEGER_ORDERS, _LENGTHS)
_TERMS = np.concatenate(
    [np.arange(2, order + 1) for order in INTEGER_ORDERS.astype(int)]
)

#: Standard deviations that are summed on either side: less than 1e-16 is beyond.
REACH = 9.0
#: Largest |log(1 + x)| for which g is computed by a power series, for orders up to
#: MAX_SERIES_ORDER; for a larger order α, the limit is smaller by α / MAX_SERIES_ORDER.
MAX_SERIES_LOG = 0.05
MAX_SERIES_ORDER = 11.0
#: Degrees of the power series.
SERIES_DEGREES = np.arange(2, 16)


@lru_cache(maxsize=4096)
def renyi_divergences(sample_rate: float, noise_multiplier: float) -> Floats:
    """Returns R(α) of one step for each of ORDERS, [A]; infinite without noise.

    Args:
        sample_rate: In (0, 1].
        noise_multiplier: At least 0.

    Returns:
        A read-only array: it is cached.
    """
    if sample_rate == 1 or noise_multiplier < MIN_NOISE:
        values = _norm_bound(sample_rate, noise_multiplier)
    else:
        rate = max(sample_rate, MIN_RATE)
        logs = np.concatenate(
            [
                log_excess_fractional(rate, noise_multiplier, FRACTIONAL_ORDERS),
                log_excess_integer(rate, noise_multiplier),
            ]
        )
        values = np.logaddexp(0.0, logs) / (ORDERS - 1)  # log(1 + E[g])
    values.flags.writeable = False
    return values


def _norm_bound(sample_rate: float, noise_multiplier: float) -> Floats:
    """Returns the divergences' upper bound by the triangle inequality, [A]."""
    if noise_multiplier == 0:
        return np.full_like(ORDERS, math.inf)
    log_norms = (ORDERS - 1) * (0.5 / noise_multiplier / noise_multiplier)  # of w
    if sample_rate < 1:
        log_norms = np.logaddexp(
            math.log1p(-sample_rate), math.log(sample_rate) + log_norms
        )
    return np.asarray(log_norms * ORDERS / (ORDERS - 1))


def log_excess_integer(sample_rate: float, noise_multiplier: float) -> Floats:
    """Returns log E[g] for INTEGER_ORDERS.

    E[g] = sum over k = 2 ... α of C(α, k) (1-q)^(α-k) q^k (e^(k(k-1)/2σ²) - 1).
    """
    log_absent = math.log1p(-sample_rate)
    k = np.arange(2, _LENGTHS.max() + 2)
    growth = log_expm1(k * (k - 1) / 2 / noise_multiplier / noise_multiplier)
    by_term = growth + k * (math.log(sample_rate) - log_absent)
    logs = _log_binomials() + _TERM_ORDERS * log_absent + by_term[_TERMS - 2]
    return log_sum_segments(logs, _STARTS)


@cache
def _log_binomials() -> Floats:
    """Returns the logarithms of the series' binomial coefficients."""
    gammaln = scipy.special.gammaln
    chosen = gammaln(_TERMS + 1) + gammaln(_TERM_ORDERS - _TERMS + 1)
    return np.asarray(gammaln(_TERM_ORDERS + 1) - chosen)


def log_excess_fractional(
    sample_rate: float, noise_multiplier: float, orders: Floats
) -> Floats:
    """Returns log E[g] for any orders > 1 by the trapezoid rule.

    Shapes: orders [A] -> [A]; M nodes.
    """
    spacing = 0.5 * min(max(noise_multiplier, 0.1), 1.0)
    top = max(float(orders.max()), 2.0) / noise_multiplier + REACH
    u = np.arange(-REACH, top, spacing)  # [M]
    y, _ = log_mixture(u, sample_rate, noise_multiplier)  # log(1 + x)
    return log_excess(y, -0.5 * u * u, spacing, orders)


def log_excess(y: Floats, weight: Floats, spacing: float, orders: Floats) -> Floats:
    """Returns log E[e^(αy) - 1 - α(e^y - 1)] by the trapezoid rule.

    Shapes: y, weight [M], orders [A] -> [A].

    Args:
        y: log(1 + x) at evenly spaced nodes.
        weight: Log of √2π times the density at the nodes.
        spacing: Distance of the nodes.
        orders: Greater than 1.
    """
    limit = MAX_SERIES_LOG / max(float(orders.max()) / MAX_SERIES_ORDER, 1.0)
    small = np.abs(y) < limit
    shift, scaled = _excess_sum(y[~small], weight[~small], orders)
    scaled += _excess_series(y[small], weight[small], orders) * np.exp(-shift)
    return np.asarray(shift + np.log(scaled * (spacing / math.sqrt(2 * math.pi))))


def _excess_sum(y: Floats, weight: Floats, orders: Floats) -> tuple[Floats, Floats]:
    """Returns s and the sum of e^(weight - s) g over nodes with a large |y|.

    Shapes: y, weight [M], orders [A] -> [A], [A].  g = e^(αy) - 1 - α (e^y - 1).
    """
    if not y.size:
        return np.zeros_like(orders), np.zeros_like(orders)
    powers = np.outer(orders, y) + weight  # [A, M]
    shift = np.maximum(powers.max(axis=1), 0.0)  # [A]
    ones = np.exp(weight)
    tangent = ones.sum() + orders * (np.exp(y + weight) - ones).sum()
    sums = np.exp(powers - shift[:, None]).sum(axis=1)
    return shift, sums - np.exp(-shift) * tangent


def _excess_series(y: Floats, weight: Floats, orders: Floats) -> Floats:
    """Returns the sum of e^weight g over nodes with a small |y|, [A].

    g = sum over k >= 2 of (α^k - α) y^k / k!, for α|y| up to 0.55 here.
    """
    degrees = SERIES_DEGREES  # [K]
    factors = (orders[:, None] ** degrees - orders[:, None]) / np.exp(
        scipy.special.gammaln(degrees + 1)
    )  # [A, K]
    return np.asarray(factors @ (y ** degrees[:, None] @ np.exp(weight)))

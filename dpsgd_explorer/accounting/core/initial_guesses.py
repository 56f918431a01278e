"""Where searches begin: the Gaussian that many steps on samples tend to.

T steps come near one Gaussian with μ = q √(T (e^(1/σ²) - 1)).  The μ that keeps ε at δ
is found at once, and the rest is solved for each of σ, q and T.  Only guesses: a search
ends on values of its own accountant.

Source: Bu, Dong, Long and Su (2020), arXiv:1911.11607, Theorem 5.
"""

from __future__ import annotations

import math

from dpsgd_explorer.accounting.core.gaussian import gaussian_noise_multiplier
from dpsgd_explorer.accounting.core.tolerances import LARGEST_EXPONENT
from dpsgd_explorer.accounting.core.validation import MAX_NOISE_MULTIPLIER
from dpsgd_explorer.errors import AccountingError

LEAST_NOISE = 0.4  # below it the limit is far off


def noise_guess(epsilon: float, sample_rate: float, steps: int, delta: float) -> float:
    """Return about what noise keeps ε at δ."""
    ratio = _mu(epsilon, delta) / sample_rate
    noise = math.log1p(ratio * ratio / steps) ** -0.5 if ratio else math.inf
    return min(max(noise, LEAST_NOISE), MAX_NOISE_MULTIPLIER)


def rate_guess(epsilon: float, noise: float, steps: int, delta: float) -> float:
    """Return about what sample rate, at most 1, keeps ε at δ."""
    return min(_mu(epsilon, delta) / math.sqrt(steps * _growth(noise)), 1.0)


def steps_guess(
    epsilon: float, sample_rate: float, noise: float, delta: float
) -> float:
    """Return about how many steps keep ε at δ."""
    ratio = _mu(epsilon, delta) / sample_rate
    return ratio * ratio / _growth(noise)  # infinite where a float is too small


def _mu(epsilon: float, delta: float) -> float:
    try:
        return 1 / gaussian_noise_multiplier(epsilon=epsilon, delta=delta)
    except AccountingError:  # no noise that is allowed keeps it
        return 1 / MAX_NOISE_MULTIPLIER


def _growth(noise: float) -> float:
    return (
        math.expm1(min(noise**-2, LARGEST_EXPONENT))
        if noise
        else math.exp(LARGEST_EXPONENT)
    )

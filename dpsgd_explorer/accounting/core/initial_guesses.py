"""Initial guesses of searches, from the Gaussian that many sampled steps converge to.

T steps come near one Gaussian with μ = q √(T (e^(1/σ²) - 1)).  The μ that meets (ε, δ)
is computed first, and the equation is then solved for σ, q or T.  The results are only
guesses: a search ends on values of its accountant.

Source: Bu, Dong, Long and Su (2020), arXiv:1911.11607, Theorem 5.
"""

from __future__ import annotations

import math

from dpsgd_explorer.accounting.core.gaussian import gaussian_noise_multiplier
from dpsgd_explorer.accounting.core.tolerances import MAX_EXPONENT
from dpsgd_explorer.accounting.core.validation import MAX_NOISE_MULTIPLIER
from dpsgd_explorer.errors import AccountingError

#: Smallest noise multiplier of a guess: for less noise, the limit is far off.
MIN_NOISE = 0.4


def noise_guess(epsilon: float, sample_rate: float, steps: int, delta: float) -> float:
    """Returns about the noise multiplier that meets (ε, δ)."""
    ratio = _mu(epsilon, delta) / sample_rate
    noise = math.log1p(ratio * ratio / steps) ** -0.5 if ratio else math.inf
    return min(max(noise, MIN_NOISE), MAX_NOISE_MULTIPLIER)


def rate_guess(epsilon: float, noise: float, steps: int, delta: float) -> float:
    """Returns about the sample rate, at most 1, that meets (ε, δ)."""
    return min(_mu(epsilon, delta) / math.sqrt(steps * _growth(noise)), 1.0)


def steps_guess(
    epsilon: float, sample_rate: float, noise: float, delta: float
) -> float:
    """Returns about the number of steps that meets (ε, δ)."""
    ratio = _mu(epsilon, delta) / sample_rate
    return ratio * ratio / _growth(noise)  # infinite where a float is too small


def _mu(epsilon: float, delta: float) -> float:
    try:
        return 1 / gaussian_noise_multiplier(epsilon=epsilon, delta=delta)
    except AccountingError:  # no allowed noise multiplier meets (ε, δ)
        return 1 / MAX_NOISE_MULTIPLIER


def _growth(noise: float) -> float:
    return math.expm1(min(noise**-2, MAX_EXPONENT)) if noise else math.exp(MAX_EXPONENT)

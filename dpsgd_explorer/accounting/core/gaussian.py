"""The Gaussian mechanism without subsampling, exactly.

T steps with noise multiplier σ are one Gaussian with μ = √T / σ; its privacy loss is
normal with mean μ²/2 and variance μ².  With x = ε/μ - μ/2, φ and Φ the normal density
and distribution function, and M(x) = (1 - Φ(x)) / φ(x) Mills' ratio,

    δ(ε) = Φ(-x) - e^ε Φ(-x - μ) = φ(x) (M(x) - M(x + μ)).

The second form keeps its digits however small δ is.

Source: Balle and Wang (2018), arXiv:1805.06530v2, Theorem 8; the same as Dong, Roth and
Su (2019), arXiv:1905.02383, Corollary 2.13.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import scipy

from dpsgd_explorer.accounting.core import validation
from dpsgd_explorer.accounting.core.root_finding import (
    first_safe,
    least_noise,
    unreachable,
)
from dpsgd_explorer.accounting.core.validation import MAX_NOISE_MULTIPLIER

#: μ below which M(x) - M(x + μ) is computed as -μ M'(x + μ/2), which has more true
#: digits there.
MAX_DERIVATIVE_MU = 1e-5
#: -x beyond which δ is 1: 1 - Φ(10) < 1e-23.
MAX_DEVIATION = 10.0


def gaussian_delta(*, epsilon: float, noise_multiplier: float, steps: int = 1) -> float:
    """Returns the exact delta of Gaussian steps on all records.

    >>> f"{gaussian_delta(epsilon=1.0, noise_multiplier=2.0):.4g}"
    '0.00683'

    Args:
        epsilon: At least 0.
        noise_multiplier: Noise std over the sensitivity; 0 gives delta 1.
        steps: Number of steps; 0 gives delta 0.

    Raises:
        AccountingError: an argument is outside its domain.

    Source: Balle and Wang (2018), arXiv:1805.06530v2, Theorem 8.
    """
    return delta_of_mu(validation.epsilon(epsilon), _mu(noise_multiplier, steps))


def delta_of_mu(loss: float, mu: float) -> float:
    """Returns δ(ε) of N(0, 1) against N(μ, 1), for loss ε >= 0 and μ from 0 to ∞."""
    if mu == 0:
        return 0.0
    return 1.0 if math.isinf(mu) else _delta(loss / mu - mu / 2, mu)


def deltas_of_mu(
    losses: npt.NDArray[np.float64], mu: float | npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Returns δ(ε) of N(0, 1) against N(μ, 1) for losses ε of either sign; [K] -> [K].

    δ(-ε) = 1 - e^-ε + e^-ε δ(ε); 0 < μ < ∞.
    """
    x = np.abs(losses) / mu - mu / 2
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        density = np.exp(-x * x / 2) / 2  # φ(x) M(x) = density · erfcx(x / √2)
        far = density * scipy.special.erfcx((x + mu) / math.sqrt(2))
        near = np.where(
            x > 0,
            density * scipy.special.erfcx(x / math.sqrt(2)),
            scipy.special.ndtr(-x),
        )
    positive = near - far
    gain = np.exp(np.minimum(losses, 0.0))
    return np.asarray(
        np.where(losses < 0, -np.expm1(np.minimum(losses, 0.0)), 0.0) + gain * positive
    )


def gaussian_epsilon(*, delta: float, noise_multiplier: float, steps: int = 1) -> float:
    """Returns the exact epsilon of Gaussian steps on all records, rounded up.

    >>> round(gaussian_epsilon(delta=1e-5, noise_multiplier=2.0, steps=10), 4)
    7.5113

    Args:
        delta: In (0, 1).
        noise_multiplier: Noise std over the sensitivity; 0 gives infinity.
        steps: Number of steps; 0 gives 0.

    Raises:
        AccountingError: an argument is outside its domain.

    Source: as ``gaussian_delta``.
    """
    return epsilon_of_mu(validation.delta(delta), _mu(noise_multiplier, steps))


def epsilon_of_mu(target: float, mu: float) -> float:
    """Returns ε, rounded up, at which N(0, 1) against N(μ, 1) has δ = target."""
    if math.isinf(mu):
        return math.inf
    low = max(-mu / 2, -MAX_DEVIATION)
    if mu == 0 or _delta(low, mu) <= target:
        return 0.0
    high = math.sqrt(-2 * math.log(target))  # δ <= e^(-x²/2): Chernoff's bound
    x = first_safe(lambda x: _delta(x, mu) - target, low, high)
    return mu * (x + mu / 2)


def gaussian_noise_multiplier(*, epsilon: float, delta: float, steps: int = 1) -> float:
    """Returns the least noise multiplier of Gaussian steps on all records, rounded up.

    >>> round(gaussian_noise_multiplier(epsilon=1.0, delta=1e-5), 4)
    3.7306

    Args:
        epsilon: Target for all steps, greater than 0.
        delta: In (0, 1).
        steps: Number of steps, at least 1.

    Raises:
        AccountingError: an argument is outside its domain.

    Source: as ``gaussian_delta``.
    """
    target, delta = (
        validation.target_epsilon(epsilon, "epsilon"),
        validation.delta(delta),
    )
    steps = validation.steps(steps, least=1)

    def excess(noise: float) -> float:
        mu = _mu(noise, steps)
        return _delta(target / mu - mu / 2, mu) - delta

    noise = least_noise(excess)
    if math.isinf(noise):
        raise unreachable(
            epsilon,
            gaussian_epsilon(
                delta=delta, noise_multiplier=MAX_NOISE_MULTIPLIER, steps=steps
            ),
        )
    return noise


def _mu(noise_multiplier: float, steps: int) -> float:
    noise, count = (
        validation.noise_multiplier(noise_multiplier),
        validation.steps(steps),
    )
    if count == 0:
        return 0.0
    return math.sqrt(count) / noise if noise else math.inf


def _delta(x: float, mu: float) -> float:
    density = math.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    if mu < MAX_DERIVATIVE_MU:
        middle = x + mu / 2
        slope = middle * _mills(middle) - 1  # M'(x) = x M(x) - 1
        return -density * mu * slope if density else 0.0
    far = density * _mills(x + mu)  # x + μ >= μ/2 > 0
    return (density * _mills(x) if x > 0 else float(scipy.special.ndtr(-x))) - far


def _mills(x: float) -> float:
    return math.sqrt(math.pi / 2) * float(scipy.special.erfcx(x / math.sqrt(2)))


def mills_ratio(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Returns M(x) = (1 - Φ(x)) / φ(x); any shape."""
    return math.sqrt(math.pi / 2) * np.asarray(scipy.special.erfcx(x / math.sqrt(2)))

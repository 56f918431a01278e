"""ε of a noisy gradient descent, and its noise or steps from a target.

T steps with noise multiplier s are one Gaussian with multiplier S, 1/S^2 = T/s^2.  A
learning rate that is released first (see ``rates``) is another Gaussian, with noise
multiplier r:

    1/S^2 = T/s^2 + 1/r^2,   r = s sqrt((1 - p) / (p T)),

so that the learning rate takes the share p of 1/S^2 for all T and s.  Steps may depend
on everything released before them: the composition of Gaussians is adaptive.

Source: Dong, Roth and Su (2019), arXiv:1905.02383, Corollary 3.3.
"""

from __future__ import annotations

import math

from dpsgd_explorer.accounting import gaussian_epsilon
from dpsgd_explorer.accounting.core import validation as domains
from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.regression import checks
from dpsgd_explorer.regression.budget import exact_noise_multiplier, grown, noise_for

#: Largest number of steps of a descent.
MAX_STEPS = 1_000_000
#: Share p of the budget for a released learning rate: each step's noise grows by 0.5%.
RELEASE_SHARE = 0.01
#: Upper bound on the relative rounding errors of the sum.
ROUND_OFF = 1e-15


def schedule(
    noise_multiplier: float | None,
    steps: int | None,
    target_epsilon: float | None,
    delta: float,
    *,
    releases_rate: bool = False,
) -> tuple[float, int]:
    """Returns noise multiplier and steps from two of the first three arguments.

    ε of the result is at most the target.

    Args:
        noise_multiplier: Noise multiplier of each step.
        steps: Number T of steps.
        target_epsilon: ε of the steps and, if it is released, the learning rate.
        delta: In (0, 1).
        releases_rate: If True, the learning rate is released from this budget too.

    Raises:
        ConfigError: not exactly two arguments are given, or the target allows no step.
        AccountingError: an argument is outside its domain.
    """
    given = (noise_multiplier, steps, target_epsilon)
    if sum(value is not None for value in given) != 2:
        raise ConfigError(
            "noise_multiplier",
            "exactly two of noise_multiplier, steps and target_epsilon must be given; "
            "the third is computed from them.",
        )
    delta = domains.delta(delta)
    if target_epsilon is not None:
        target_epsilon = domains.target_epsilon(target_epsilon)
    if steps is not None:
        steps = checks.whole("steps", steps, MAX_STEPS)
        if noise_multiplier is None:
            assert target_epsilon is not None  # two are given
            noise = noise_within(target_epsilon, steps, delta, releases_rate)
            return noise, steps
    noise = checks.positive("noise_multiplier", noise_multiplier)
    if steps is None:
        assert target_epsilon is not None  # two are given
        steps = steps_within(target_epsilon, noise, delta, releases_rate)
    return noise, steps


def steps_within(
    target_epsilon: float,
    noise_multiplier: float,
    delta: float,
    releases_rate: bool = False,
) -> int:
    """Returns the largest number of steps that stays within the target.

    Raises:
        ConfigError: no step stays within the target, or more than 1,000,000 would.
        AccountingError: the target or delta is outside its domain.
    """
    single = exact_noise_multiplier(epsilon=target_epsilon, delta=delta)
    room = (noise_multiplier / single) ** 2
    room *= _share_of_steps(releases_rate)
    steps = math.floor(min(room, MAX_STEPS + 1)) + 1
    while (
        steps and _total(noise_multiplier, steps, delta, releases_rate) > target_epsilon
    ):
        steps -= 1
    if not 1 <= steps <= MAX_STEPS:
        raise ConfigError(
            "noise_multiplier",
            f"noise_multiplier must leave room for 1 to {MAX_STEPS:,} steps within "
            f"target_epsilon = {target_epsilon:g}, got {noise_multiplier:g}. "
            f"{'Lower' if steps else 'Raise'} it, or set steps instead.",
        )
    return steps


def noise_within(
    target_epsilon: float, steps: int, delta: float, releases_rate: bool = False
) -> float:
    """Returns the least noise multiplier whose steps stay within the target.

    Raises:
        AccountingError: an argument is outside its domain.
    """
    noise = noise_for(target_epsilon, delta, steps)
    if not releases_rate:
        return noise
    return grown(
        noise / math.sqrt(_share_of_steps(releases_rate)),
        lambda x: _total(x, steps, delta, releases_rate),
        target_epsilon,
    )


def rate_noise(noise_multiplier: float, steps: int) -> float:
    """Returns the noise multiplier of a learning rate released before the steps."""
    share = RELEASE_SHARE
    return noise_multiplier * math.sqrt((1 - share) / (share * steps))


def spent(
    noise_multiplier: float,
    steps: int,
    delta: float,
    rate_noise_multiplier: float | None = None,
) -> float:
    """Returns the exact ε after a number of steps, rounded up.

    Args:
        noise_multiplier: Noise multiplier of each step.
        steps: Number of steps done, 0 or more.
        delta: In (0, 1).
        rate_noise_multiplier: Noise multiplier of the learning rate released before the
            steps; None if no rate is released.

    Raises:
        AccountingError: an argument is outside its domain.
    """
    if rate_noise_multiplier is None:
        return gaussian_epsilon(
            delta=delta, noise_multiplier=noise_multiplier, steps=steps
        )
    mu = math.hypot(math.sqrt(steps) / noise_multiplier, 1 / rate_noise_multiplier)
    return gaussian_epsilon(delta=delta, noise_multiplier=(1 - ROUND_OFF) / mu)


def _total(noise: float, steps: int, delta: float, releases_rate: bool) -> float:
    """Returns ε of all steps and, if it is released, the learning rate."""
    rate = rate_noise(noise, steps) if releases_rate and steps else None
    return spent(noise, steps, delta, rate)


def _share_of_steps(releases_rate: bool) -> float:
    return 1 - RELEASE_SHARE if releases_rate else 1.0

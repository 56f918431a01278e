"""What a noisy gradient descent spends, and its noise or steps from a target.

T steps with noise multiplier s are one Gaussian, 1/S^2 = T/s^2.  A learning rate that
is released first (see rates) is one Gaussian more, with noise multiplier r:

    1/S^2 = T/s^2 + 1/r^2,   r = s sqrt((1 - p) / (p T)),

so that it takes the share p of the whole, whatever T and s are.  Steps may depend on
everything released before them: the composition of Gaussians is adaptive.

Source: Dong, Roth and Su (2019), arXiv:1905.02383, Corollary 3.3.
"""

from __future__ import annotations

import math

from dpsgd_explorer.accounting import gaussian_epsilon
from dpsgd_explorer.accounting.core import validation as domains
from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.regression import checks
from dpsgd_explorer.regression.budget import exact_noise_multiplier, grown, noise_for

MAX_STEPS = 1_000_000
RELEASE_SHARE = 0.01
"""Of the budget, for a released learning rate: each step's noise grows by 0.5 %."""
ROUNDING = 1e-15  # relative, more than the rounding errors of the sum


def schedule(
    noise_multiplier: float | None,
    steps: int | None,
    target_epsilon: float | None,
    delta: float,
    *,
    releases_rate: bool = False,
) -> tuple[float, int]:
    """Return noise multiplier and steps from two of the three, on the safe side.

    Args:
        noise_multiplier: Of each step.
        steps: T.
        target_epsilon: Of the steps and, if released, the learning rate.
        delta: In (0, 1).
        releases_rate: Whether the learning rate is released from the same budget.

    Raises:
        ConfigError: not two of them are given, or the target has no room for a step.
        AccountingError: one is outside its domain.
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
    """Return the most steps that stay within the target.

    Raises:
        ConfigError: not even one does, or more than 1,000,000 would.
        AccountingError: the target or delta is outside its domain.
    """
    single = exact_noise_multiplier(epsilon=target_epsilon, delta=delta)
    room = (noise_multiplier / single) ** 2
    room *= _share_of_steps(releases_rate)
    steps = math.floor(min(room, MAX_STEPS + 1)) + 1
    while steps and _all(noise_multiplier, steps, delta, releases_rate) > (
        target_epsilon
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
    """Return the least noise multiplier whose steps stay within the target.

    Raises:
        AccountingError: an argument is outside its domain.
    """
    noise = noise_for(target_epsilon, delta, steps)
    if not releases_rate:
        return noise
    return grown(
        noise / math.sqrt(_share_of_steps(releases_rate)),
        lambda x: _all(x, steps, delta, releases_rate),
        target_epsilon,
    )


def rate_noise(noise_multiplier: float, steps: int) -> float:
    """Return the noise multiplier of a learning rate released before the steps."""
    share = RELEASE_SHARE
    return noise_multiplier * math.sqrt((1 - share) / (share * steps))


def spent(
    noise_multiplier: float,
    steps: int,
    delta: float,
    rate_noise_multiplier: float | None = None,
) -> float:
    """Return the exact ε after so many steps, rounded up.

    Args:
        noise_multiplier: Of each step.
        steps: Steps done, 0 or more.
        delta: In (0, 1).
        rate_noise_multiplier: Of the learning rate released before them; None: none is.

    Raises:
        AccountingError: an argument is outside its domain.
    """
    if rate_noise_multiplier is None:
        return gaussian_epsilon(
            delta=delta, noise_multiplier=noise_multiplier, steps=steps
        )
    mu = math.hypot(math.sqrt(steps) / noise_multiplier, 1 / rate_noise_multiplier)
    return gaussian_epsilon(delta=delta, noise_multiplier=(1 - ROUNDING) / mu)


def _all(noise: float, steps: int, delta: float, releases_rate: bool) -> float:
    """Return ε of all steps, with the released rate."""
    rate = rate_noise(noise, steps) if releases_rate and steps else None
    return spent(noise, steps, delta, rate)


def _share_of_steps(releases_rate: bool) -> float:
    return 1 - RELEASE_SHARE if releases_rate else 1.0

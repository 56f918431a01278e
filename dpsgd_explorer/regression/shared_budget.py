"""One budget ε for the releases of several methods on the same table.

Every method is one Gaussian mechanism.  With noise multiplier m of each of k methods,
all of them together are one Gaussian with multiplier S, 1/S^2 = k/m^2.  So each method
gets the same share of 1/S^2, and m = S sqrt(k).

Source: Dong, Roth and Su (2019), arXiv:1905.02383, Corollary 3.3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dpsgd_explorer.accounting import gaussian_epsilon
from dpsgd_explorer.regression import checks
from dpsgd_explorer.regression.bounds import Bounds
from dpsgd_explorer.regression.budget import Budget, exact_noise_multiplier, grown
from dpsgd_explorer.regression.perturbation import METHODS as PERTURBED
from dpsgd_explorer.regression.perturbation import Perturbation
from dpsgd_explorer.regression.spending import (
    ROUND_OFF,
    noise_within,
    rate_noise,
    spent,
)
from dpsgd_explorer.validation import one_of

NOISY_GD = "noisy_gd"
#: Methods that can share a budget; noisy_gd releases its learning rate too.
METHODS = (*PERTURBED, NOISY_GD)


@dataclass(frozen=True)
class Mechanism:
    """Gaussian releases with the same noise multiplier.

    Attributes:
        released: Released quantity: "xtx", "xty", "rate" or "gradient".
        noise_multiplier: Noise standard deviation over the sensitivity.
        times: Number of releases.
    """

    released: str
    noise_multiplier: float
    times: int = 1


@dataclass(frozen=True)
class Share:
    """The part of the budget that one method spends.

    Attributes:
        method: "ssp", "adassp" or "noisy_gd".
        epsilon: Exact ε of this method alone.
        mechanisms: Its Gaussian releases.
        budget: Noise of SSP and AdaSSP; None for noisy_gd.
    """

    method: str
    epsilon: float
    mechanisms: tuple[Mechanism, ...]
    budget: Budget | None = None


@dataclass(frozen=True)
class SharedBudget:
    """The shares of all methods.

    Attributes:
        epsilon: Exact ε of all releases together, never above the target.
        delta: δ at which each ε holds.
        shares: One share per method, in the order of the methods.
    """

    epsilon: float
    delta: float
    shares: tuple[Share, ...]


def share_budget(
    methods: Sequence[str], bounds: Bounds, *, epsilon: float, delta: float, steps: int
) -> SharedBudget:
    """Returns the equal shares of methods that together spend at most epsilon.

    Args:
        methods: Different names of ``METHODS``, at least one.
        bounds: Public bounds of the records.
        epsilon: Budget of all methods together, above 0.
        delta: In (0, 1).
        steps: Number of steps of noisy_gd, at least 1.

    Raises:
        ConfigError: A method is unknown or repeated, or there is none.
        AccountingError: epsilon or delta is outside its domain.

    Example:
        >>> bounds = Bounds(x_bound=1.0, y_bound=1.0)
        >>> both = share_budget(
        ...     ["ssp", "adassp"], bounds, epsilon=1.0, delta=1e-5, steps=1
        ... )
        >>> both.epsilon <= 1.0
        True
        >>> [round(share.epsilon, 2) for share in both.shares]  # their sum is above 1
        [0.68, 0.68]
    """
    for method in methods:
        one_of("methods", method, METHODS)
    if not methods or len(set(methods)) < len(methods):
        checks.refuse(
            "methods", f"methods must be different names, at least one, got {methods}."
        )
    single = exact_noise_multiplier(epsilon=epsilon, delta=delta)

    def shared(multiplier: float) -> tuple[Share, ...]:
        alone = gaussian_epsilon(delta=delta, noise_multiplier=multiplier)
        return tuple(_share(name, bounds, alone, delta, steps) for name in methods)

    multiplier = grown(
        single * math.sqrt(len(methods)),
        lambda noise: epsilon_of(_mechanisms(shared(noise)), delta),
        epsilon,
    )
    shares = shared(multiplier)
    return SharedBudget(epsilon_of(_mechanisms(shares), delta), delta, shares)


def epsilon_of(mechanisms: Sequence[Mechanism], delta: float) -> float:
    """Returns the exact ε of Gaussian mechanisms together, rounded up.

    Raises:
        AccountingError: delta or a noise multiplier is outside its domain.
    """
    precision = math.fsum(m.times / m.noise_multiplier**2 for m in mechanisms)
    noise = (1 - len(mechanisms) * ROUND_OFF) / math.sqrt(precision)
    return gaussian_epsilon(delta=delta, noise_multiplier=noise)


def _mechanisms(shares: Sequence[Share]) -> list[Mechanism]:
    return [mechanism for share in shares for mechanism in share.mechanisms]


def _share(
    method: str, bounds: Bounds, epsilon: float, delta: float, steps: int
) -> Share:
    """Returns the share of a method that spends at most epsilon alone."""
    if method == NOISY_GD:
        noise = noise_within(epsilon, steps, delta, releases_rate=True)
        rate = rate_noise(noise, steps)
        descent = Mechanism("rate", rate), Mechanism("gradient", noise, steps)
        return Share(method, spent(noise, steps, delta, rate), descent)
    budget = Perturbation(method=method, bounds=bounds).budget(epsilon, delta)
    parts = budget.noise_multipliers.items()
    mechanisms = tuple(Mechanism(name, noise) for name, noise in parts)
    return Share(method, budget.epsilon, mechanisms, budget)

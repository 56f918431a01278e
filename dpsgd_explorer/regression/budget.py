"""The exact split of one (epsilon, delta) over several Gaussian releases.

Releases with noise multipliers s_1, s_2, ... together are one Gaussian with multiplier
s, 1/s^2 = sum 1/s_i^2.  With s_i = k r_i the scale is k = s sqrt(sum 1/r_i^2): a closed
form without a search, so that no part of the budget is lost to a tolerance.

Source: Dong, Roth and Su (2019), arXiv:1905.02383, Section 3 (composition of
Gaussians); s from Balle and Wang (2018), arXiv:1805.06530v2, Theorem 8.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from dpsgd_explorer.accounting import gaussian_epsilon, gaussian_noise_multiplier
from dpsgd_explorer.accounting.core import validation as domains
from dpsgd_explorer.errors import AccountingError

#: First relative growth of the noise until ε, which is rounded up, fits the target.
NOISE_GROWTH = 1e-13

exact_noise_multiplier = lru_cache(maxsize=4096)(gaussian_noise_multiplier)


@dataclass(frozen=True)
class Part:
    """One released quantity.

    Attributes:
        name: ``xtx``, ``xty`` or ``lambda_min``.
        sensitivity: Sensitivity in the norm of the quantity.
        ratio: Noise multiplier relative to the other parts'.
    """

    name: str
    sensitivity: float
    ratio: float


@dataclass(frozen=True)
class Budget:
    """The noise of each released part, and the ε of all of them.

    Attributes:
        target_epsilon: Target ε.
        epsilon: The exact ε spent, never above the target.
        delta: δ at which ε holds.
        parts: The released quantities.
        noise_multipliers: Noise std over sensitivity, by the name of the part.
    """

    target_epsilon: float
    epsilon: float
    delta: float
    parts: tuple[Part, ...]
    noise_multipliers: dict[str, float]

    @property
    def noise_stds(self) -> dict[str, float]:
        """Noise standard deviation by part, in the units of what is released."""
        return {
            part.name: self.noise_multipliers[part.name] * part.sensitivity
            for part in self.parts
        }

    @property
    def shares(self) -> dict[str, float]:
        """Share of 1/s^2, the quantity that adds up, by part; their sum is 1."""
        precisions = {name: s**-2 for name, s in self.noise_multipliers.items()}
        total = math.fsum(precisions.values())
        return {name: value / total for name, value in precisions.items()}


def split(epsilon: float, delta: float, parts: Sequence[Part]) -> Budget:
    """Returns the budget whose parts together spend at most epsilon.

    Args:
        epsilon: Target, greater than 0.
        delta: In (0, 1).
        parts: At least one.

    Raises:
        AccountingError: epsilon or delta is outside its domain.
    """
    try:
        target, at = domains.target_epsilon(epsilon), domains.delta(delta)
        spent, scale = _scaled(target, at, tuple(part.ratio for part in parts))
    except AccountingError as error:
        message = str(error).replace("target_epsilon", "epsilon")
        raise AccountingError(message, field=message.split(" ", 1)[0]) from None
    multipliers = {part.name: scale * part.ratio for part in parts}
    return Budget(target, spent, at, tuple(parts), multipliers)


@lru_cache(maxsize=4096)
def _scaled(
    epsilon: float, delta: float, ratios: tuple[float, ...]
) -> tuple[float, float]:
    """Returns the ε spent, and the least safe scale of the ratios."""

    def spent(scale: float) -> float:
        precision = math.fsum((scale * ratio) ** -2 for ratio in ratios)
        return gaussian_epsilon(delta=delta, noise_multiplier=1 / math.sqrt(precision))

    single = exact_noise_multiplier(epsilon=epsilon, delta=delta)
    scale = single * math.sqrt(math.fsum(ratio**-2 for ratio in ratios))
    scale = grown(scale, spent, epsilon)
    return spent(scale), scale


def noise_for(target_epsilon: float, delta: float, steps: int) -> float:
    """Returns the noise multiplier with which ``steps`` steps stay within the target.

    Raises:
        AccountingError: an argument is outside its domain.
    """
    noise = gaussian_noise_multiplier(epsilon=target_epsilon, delta=delta, steps=steps)
    return grown(
        noise,
        lambda x: gaussian_epsilon(delta=delta, noise_multiplier=x, steps=steps),
        target_epsilon,
    )


def grown(noise: float, spent: Callable[[float], float], target: float) -> float:
    """Returns the noise, raised until the ε that it spends is at most the target."""
    growth = NOISE_GROWTH
    while spent(noise) > target:
        noise *= 1 + growth
        growth *= 2
    return noise

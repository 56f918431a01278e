"""One step on a Poisson batch that is cut to B records, chosen at random.

Neighbouring data sets share N - 1 records, and the step draws K ~ Bin(N - 1, q) of
them.  Let the output also reveal whether K >= B, an event of probability Ψ: this can
only raise ε.

| case | the record | the pair compared |
|---|---|---|
| K < B | joins with probability q; nothing is cut | a subsampled Gaussian: q, σ |
| K >= B | joins with probability p, displaces another | a subsampled Gaussian: p, σ/2 |

All records of a batch that is cut are equally likely to stay, so that
pΨ = P(Bin(N, q) > B) B / N.  A displaced record moves the sum by up to two clipping
bounds.  In the second case the B - 1 other records are a random subset with and without
the record, so that both outputs can be coupled: N(y) against (1 - p) N(y) + p N(x),
with |x - y| <= 2 clipping bounds.  So the step's privacy curve is at most
(1 - Ψ) δ_q(ε) + Ψ δ_p(ε), in each direction.

Lower bound: where all other gradients are 0, the step is exactly a subsampled Gaussian
with the rate q (1 - Ψ) + pΨ.

Source: "Tighter Privacy Analysis for Truncated Poisson Sampling" (2025),
arXiv:2508.15089, as dp-accounting applies it: the two cases and p.  Differs: there a
displaced record counts as a replaced one at half the noise multiplier; the coupling
above makes it an added one.
"""

from __future__ import annotations

from dataclasses import dataclass

import scipy

from dpsgd_explorer.accounting.core.tolerances import TOLERANCES
from dpsgd_explorer.accounting.exact.mixed_loss import mixed_loss
from dpsgd_explorer.accounting.exact.phases import MIN_NOISE, MIN_RATE
from dpsgd_explorer.accounting.exact.privacy_loss import (
    Direction,
    GaussianLoss,
    PrivacyLoss,
)
from dpsgd_explorer.accounting.exact.subsampled_gaussian import SubsampledGaussianLoss

#: Smallest tail: a smaller one is no normal float.
MIN_TAIL = 1e-300
#: L2 sensitivity of each direction, in clipping bounds.
SENSITIVITIES = {"remove": 1.0, "add": 1.0, "replace": 2.0}


@dataclass(frozen=True)
class TruncatedStep:
    """A step on a truncated Poisson batch; probabilities are rounded to the safe side.

    Attributes:
        sample_rate: q, in (0, 1].
        noise_multiplier: Noise std over the clipping bound, greater than 0.
        sample_size: Records N of the larger of two neighbouring data sets.
        max_batch_size: Largest number B of records of a batch, less than N.
    """

    sample_rate: float
    noise_multiplier: float
    sample_size: int
    max_batch_size: int

    @property
    def is_within_reach(self) -> bool:
        """If True, the accountant's integrals can be trusted for q and σ/2."""
        within = MIN_RATE <= self.sample_rate < 1 - MIN_RATE
        return self.noise_multiplier >= 2 * MIN_NOISE and (
            within or self.sample_rate == 1
        )

    @property
    def least_rate(self) -> float:
        """The rate of the lower bound, q (1 - Ψ) + pΨ, rounded down."""
        full, stays = self._full_probability(1), self._joins_full_probability(-1)
        return min(self.sample_rate * (1 - full) + stays, self.sample_rate)

    def loss(self, direction: Direction) -> PrivacyLoss:
        """Returns a privacy loss with a curve that is nowhere below the step's."""
        q, sigma = self.sample_rate, self.noise_multiplier
        high, low = self._full_probability(1), self._full_probability(-1)
        largest = q * self.max_batch_size / (self.max_batch_size + 1)
        rate = min(self._joins_full_probability(1) / low, largest) if low else largest
        # The probability between low and high counts as the larger of both cases.
        cases = [
            (1 - high, q, sigma),
            (low, rate, sigma / 2),
            (high - low, q, sigma / 2),
        ]
        present = [case for case in cases if case[0] > 0]
        return mixed_loss(
            [weight for weight, _, _ in present],
            [_step_loss(max(q, MIN_RATE), x, direction) for _, q, x in present],
        )

    def _full_probability(self, sign: int) -> float:
        """Returns Ψ, rounded up (sign 1) or down (-1)."""
        size, cap = self.sample_size - 1, self.max_batch_size - 1
        return binomial_tail(size, self.sample_rate, cap, sign)

    def _joins_full_probability(self, sign: int) -> float:
        """Returns pΨ, rounded up (sign 1) or down (-1)."""
        size, cap = self.sample_size, self.max_batch_size
        return binomial_tail(size, self.sample_rate, cap, sign) * cap / size


def _step_loss(rate: float, noise: float, direction: Direction) -> PrivacyLoss:
    if rate > 1 - MIN_RATE:
        return GaussianLoss(SENSITIVITIES[direction] / noise)
    return SubsampledGaussianLoss(rate, noise, direction)


def binomial_tail(size: int, rate: float, cap: int, sign: int = 1) -> float:
    """Returns P(Bin(size, rate) > cap), rounded up; rounded down for sign -1.

    It is an incomplete beta function, P(Bin(N, q) > B) = I_q(B + 1, N - B), which takes
    real arguments: scipy's binomial functions take 32-bit integers, and return NaN for
    larger ones.  A batch of 256 of 60,000 records on average exceeds 300 records in one
    of 308 steps:

    >>> round(binomial_tail(60_000, 256 / 60_000, 300), 6)
    0.003242
    """
    if cap >= size:
        return 0.0
    tail = float(scipy.special.betainc(cap + 1.0, float(size - cap), rate))
    if not 0 <= tail <= 1:
        raise ArithmeticError(f"P(Binomial({size}, {rate}) > {cap}) came out as {tail}")
    if sign < 0:
        return max(tail * (1 - TOLERANCES.binomial_tail) - MIN_TAIL, 0.0)
    return min(tail * (1 + TOLERANCES.binomial_tail) + MIN_TAIL, 1.0)

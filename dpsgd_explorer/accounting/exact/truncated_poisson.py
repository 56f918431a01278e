"""One step on a Poisson batch that is cut to B records, chosen at random.

Neighbours share N - 1 records, of which the step draws K ~ Binomial(N - 1, q).  Let the
outcome tell whether K >= B, which happens with probability Ψ: that tells no less.

| case | the record | compared |
|---|---|---|
| K < B | joins with probability q; nothing is cut | a sampled Gaussian, rate q |
| K >= B | joins with probability p, and displaces another | the same, rate p and σ/2 |

where pΨ = P(Binomial(N, q) > B) B / N: of a batch that is cut, each record is as likely
to stay.  A displaced record moves the sum by up to twice the clipping bound.
In the second case the B - 1 others are a random subset either way, so that both worlds
can be coupled: N(y) against (1 - p) N(y) + p N(x), with |x - y| <= 2 clipping bounds.
The curve of a step is therefore at most (1 - Ψ) δ_q(ε) + Ψ δ_p(ε), in each direction.

From below: where all other gradients are 0, it is a sampled Gaussian of the rate
q (1 - Ψ) + pΨ, exactly.

Source: "Tighter Privacy Analysis for Truncated Poisson Sampling" (2025),
arXiv:2508.15089, as dp-accounting applies it: the two cases and p.  Differs: there a
displaced record counts as a replaced one at half the noise multiplier; the coupling
above makes it an added one.
"""

from __future__ import annotations

from dataclasses import dataclass

from scipy.special import betainc

from dpsgd_explorer.accounting.exact.accountant import LEAST_NOISE, LEAST_RATE
from dpsgd_explorer.accounting.exact.mixed_loss import mixed_loss
from dpsgd_explorer.accounting.exact.privacy_loss import (
    Direction,
    GaussianLoss,
    PrivacyLoss,
)
from dpsgd_explorer.accounting.exact.subsampled_gaussian import SubsampledGaussianLoss

TAIL_ERROR = 1e-7  # of a binomial tail, relative: 80 times the largest that was seen
LEAST_TAIL = 1e-300  # below which a tail is no normal float
MOVES = {"remove": 1.0, "add": 1.0, "replace": 2.0}  # clipping bounds, unsampled


@dataclass(frozen=True)
class TruncatedStep:
    """A step whose batch is cut; all numbers rounded to the safe side.

    Attributes:
        sample_rate: q, in (0, 1].
        noise_multiplier: Noise std over the clipping bound, greater than 0.
        sample_size: Records N of the larger of two neighbouring data sets.
        max_batch_size: Records B that a batch may hold, less than N.
    """

    sample_rate: float
    noise_multiplier: float
    sample_size: int
    max_batch_size: int

    @property
    def is_within_reach(self) -> bool:
        """Whether the integrals can be trusted with it."""
        within = LEAST_RATE <= self.sample_rate < 1 - LEAST_RATE
        return self.noise_multiplier >= 2 * LEAST_NOISE and (
            within or self.sample_rate == 1
        )

    @property
    def least_rate(self) -> float:
        """Rate at which the record joins, rounded down; a bound on ε from below."""
        full, kept = self._full(1), self._kept(-1)
        return min(self.sample_rate * (1 - full) + kept, self.sample_rate)

    def loss(self, direction: Direction) -> PrivacyLoss:
        """Return a loss whose curve is nowhere below the step's."""
        q, sigma = self.sample_rate, self.noise_multiplier
        high, low = self._full(1), self._full(-1)
        most = q * self.max_batch_size / (self.max_batch_size + 1)
        rate = min(self._kept(1) / low, most) if low else most
        # What rounding leaves between low and high counts as the larger of both cases.
        cases = [
            (1 - high, q, sigma),
            (low, rate, sigma / 2),
            (high - low, q, sigma / 2),
        ]
        present = [case for case in cases if case[0] > 0]
        return mixed_loss(
            [weight for weight, _, _ in present],
            [_sampled(max(q, LEAST_RATE), x, direction) for _, q, x in present],
        )

    def _full(self, side: int) -> float:
        """Return Ψ, rounded up or down."""
        size, cap = self.sample_size - 1, self.max_batch_size - 1
        return binomial_tail(size, self.sample_rate, cap, side)

    def _kept(self, side: int) -> float:
        """Return pΨ, rounded up or down."""
        cut = binomial_tail(
            self.sample_size, self.sample_rate, self.max_batch_size, side
        )
        return cut * self.max_batch_size / self.sample_size


def _sampled(rate: float, noise: float, direction: Direction) -> PrivacyLoss:
    if rate > 1 - LEAST_RATE:
        return GaussianLoss(MOVES[direction] / noise)
    return SubsampledGaussianLoss(rate, noise, direction)


def binomial_tail(size: int, rate: float, cap: int, side: int = 1) -> float:
    """Return P(Binomial(size, rate) > cap), rounded up; down where side is -1.

    An incomplete beta function of real arguments, P(N > B) = I_q(B + 1, N - B): the
    binomial functions of scipy take 32-bit integers, beyond which they give NaN.
    """
    if cap >= size:
        return 0.0
    tail = float(betainc(cap + 1.0, float(size - cap), rate))
    if not 0 <= tail <= 1:
        raise ArithmeticError(f"P(Binomial({size}, {rate}) > {cap}) came out as {tail}")
    if side < 0:
        return max(tail * (1 - TAIL_ERROR) - LEAST_TAIL, 0.0)
    return min(tail * (1 + TAIL_ERROR) + LEAST_TAIL, 1.0)

"""The privacy loss of a step for k records of one person together.

Each record joins the step with probability q, independently.  If j of them do, they
move the sum by at most j clipping bounds, so the pair with the
largest privacy loss is

    P = Σ p_j N(j, σ²),    Q = N(0, σ²),    p_j = C(k, j) q^j (1 - q)^(k - j),

in both directions.  As in ``subsampled_gaussian``, v is the noise in units of its
standard deviation, and y(v) = log P/Q:

    e^y = Σ p_j e^x_j,    x_j = j v / σ - j² / 2σ².

**Zeros.**  e^y is a polynomial in e^(v/σ).  It arises from (1 - q + q w)^k, whose zeros
are real, by the factors e^(-j² / 2σ²) on its coefficients, which keep all zeros real
(Laguerre): they are the values at j of an entire function that is a limit of
polynomials with real zeros outside [0, k].  So y is a sum of k terms log(1 + e^(v/σ)/r)
with r > 0, and the integrand is analytic for |Im v| < πσ, as for one record.  With
α = τ/σ, s a term's share e^(v/σ)/r / (1 + e^(v/σ)/r), and σ y' the sum of the shares:

- Im of a term at v + iτ is atan2(s sin α, 1 - s (1 - cos α)).  Its derivative by s is
  at least sin α, so that Im y >= σ y' sin α;
- a term's modulus falls by a factor of at least cos(α/2), so that
  Re y >= y(v) + k log cos(α/2).

**Curve.**  y rises, so that ℓ > ε on one side of the v at which they are equal.  There
δ is a sum of positive terms, with δ_μ the curve of one Gaussian step:

| direction | δ(ε) |
|---|---|
| remove | Σ p_j δ_(j/σ)(x_j) |
| add | Σ p_j e^(x_j + ε) δ_(j/σ)(-x_j) |

Source: Ganesh (2024), arXiv:2401.10294, for the pair; Laguerre's theorem:
Craven and Csordas (2004), "Composition theorems, multiplier sequences and complex zero
decreasing sequences", Theorem 1.4.

Notation: M nodes v, K values of ε, k + 1 numbers of records j.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dpsgd_explorer.accounting.core.accountant import Floats
from dpsgd_explorer.accounting.core.gaussian import deltas_of_mu, epsilon_of_mu
from dpsgd_explorer.accounting.core.log_space import log_expm1
from dpsgd_explorer.accounting.core.root_finding import first_safe
from dpsgd_explorer.accounting.exact.subsampled_gaussian import SubsampledGaussianLoss

#: Largest number of products of values v and numbers j in memory.
MAX_PRODUCTS = 1 << 20
#: |y| below which the sum of p_j (e^x_j - 1) has more digits than e^y.
MAX_EXCESS_LOSS = 0.5
#: Size of e^y over its value at Im v = 0 below which round-off matters, and a bound is
#: used.
MIN_RELATIVE_SIZE = 1e-10
#: Newton steps that solve y = ε: about five are enough.
MAX_NEWTON_STEPS = 60
#: Relative size of the last Newton step.
LAST_NEWTON_STEP = 1e-15


@dataclass(frozen=True)
class GroupLoss(SubsampledGaussianLoss):
    """The loss of a step on a Poisson sample for several records together.

    The cumulant at s = 1 of two records with q = 1/2 and σ = 1 is
    log Σ p_i p_j e^(ij) = log 6.3767; i and j are the records that join:

    >>> step = GroupLoss(0.5, 1.0, "remove", records=2)
    >>> round(float(step.cumulants(np.array([1.0]))[0, 0]), 10)
    1.8526536796

    Attributes:
        sample_rate: q, in (0, 1).
        noise_multiplier: σ, noise std over the clipping bound, greater than 0.
        direction: "remove" or "add".
        records: k, at least 1.
    """

    records: int

    @property
    def _distance(self) -> float:
        return float(self.records)

    @property
    def _edge(self) -> float:
        return self.records * math.log1p(-self.sample_rate)

    def _mixture(self, v: Floats) -> tuple[Floats, Floats]:
        y, mean, _ = self._moments(v)
        return y, mean / self.noise_multiplier

    def _curvature(self, v: Floats) -> Floats:
        """Returns y'' = Var(j) / σ², for j with the weights p_j e^x_j."""
        return self._moments(v)[2] / self.noise_multiplier**2

    def _moments(self, v: Floats) -> tuple[Floats, Floats, Floats]:
        """Returns y, and mean and variance of j with the weights p_j e^x_j; [M]."""
        parts = [self._moments_of_chunk(chunk) for chunk in self._chunks(v)]
        y, mean, variance = (np.concatenate(part) for part in zip(*parts, strict=True))
        return y, mean, variance

    def _moments_of_chunk(self, v: Floats) -> tuple[Floats, Floats, Floats]:
        logs = self._log_probabilities + self._exponents(v)  # [M, k + 1]
        top = logs.max(axis=1)
        weights = np.exp(logs - top[:, None])
        total = weights.sum(axis=1)
        y = top + np.log(total)
        near = np.abs(y) < MAX_EXCESS_LOSS
        gains = np.expm1(self._exponents(v[near]))
        y[near] = np.log1p(gains @ np.exp(self._log_probabilities))
        mean = weights @ self._numbers / total
        square = weights @ self._numbers**2 / total
        return y, mean, np.maximum(square - mean * mean, 0.0)

    def _shifted_mixture(self, v: Floats, height: Floats) -> tuple[Floats, Floats]:
        """Returns Re y, rounded to the side of a larger integrand, and σ y' sin α."""
        height = np.broadcast_to(height, np.broadcast_shapes(v.shape, height.shape))
        angle = height / self.noise_multiplier  # α, [..., M]
        y, mean, _ = self._moments(v)
        size = np.empty_like(angle)
        for start, chunk in zip(self._starts(len(v)), self._chunks(v), strict=True):
            span = slice(start, start + len(chunk))
            logs = self._log_probabilities + self._exponents(chunk)
            weights = np.exp(logs - logs.max(axis=1)[:, None])
            weights /= weights.sum(axis=1)[:, None]
            turn = np.exp(1j * angle[..., span])  # Horner's scheme in e^(iα)
            total = np.zeros_like(turn)
            for weight in weights.T[::-1]:
                total = total * turn + weight
            size[..., span] = np.abs(total)
        least = self.records * np.log(np.cos(angle / 2))
        if self.direction == "remove":
            least = np.full_like(least, math.log(MIN_RELATIVE_SIZE))
        is_small = size < MIN_RELATIVE_SIZE
        change = np.where(is_small, least, np.log(np.where(is_small, 1.0, size)))
        return y + change, mean * np.sin(angle)

    def _noise_at(self, height: Floats) -> Floats:
        """Returns the v at which y is ``height`` above its infimum; [M] -> [M].

        The log of the sum over j >= 1 is convex in v, with slopes from 1/σ to k/σ:
        Newton's method comes from the right, and never passes the root.
        """
        target = log_expm1(height) + self._edge  # log of the sum over j >= 1
        sigma, numbers = self.noise_multiplier, self._numbers[1:]
        parts = []
        for chunk in self._chunks(target):
            starts = chunk[:, None] - self._log_probabilities[1:]
            starts = starts * sigma / numbers + numbers / (2 * sigma)
            v = starts.min(axis=1)  # where the largest term alone is the target
            for _ in range(MAX_NEWTON_STEPS):
                logs = (self._log_probabilities + self._exponents(v))[:, 1:]
                top = logs.max(axis=1)
                weights = np.exp(logs - top[:, None])
                total = weights.sum(axis=1)
                slope = weights @ numbers / total / sigma
                step = (top + np.log(total) - chunk) / slope
                v = v - step
                if np.all(np.abs(step) <= LAST_NEWTON_STEP * (1 + np.abs(v))):
                    break
            parts.append(v)
        return np.concatenate(parts)

    def deltas(self, epsilons: Floats) -> Floats:
        sign = 1.0 if self.direction == "remove" else -1.0
        height = sign * epsilons - self._edge
        deltas = np.maximum(-np.expm1(np.minimum(epsilons, 0.0)), 0.0)  # y never below
        if self.direction == "add":
            deltas = np.zeros_like(epsilons)  # -y never above
        inside = np.flatnonzero(height > 0)
        mus = self._numbers[1:] / self.noise_multiplier
        starts = self._starts(len(inside))
        for part in (inside[i : i + starts.step] for i in starts):
            v = self._noise_at(height[part])
            exponents = self._exponents(v)[:, 1:]  # [K, k]
            logs = np.broadcast_to(self._log_probabilities[1:], exponents.shape)
            if self.direction == "add":
                logs = logs + exponents + epsilons[part, None]
            terms = deltas_of_mu(sign * exponents, mus)
            deltas[part] = (np.exp(logs) * np.maximum(terms, 0.0)).sum(axis=1)
        return deltas

    def loss_range(self, tail: float) -> tuple[float, float]:
        high = GroupLoss(
            self.sample_rate, self.noise_multiplier, "remove", self.records
        ).epsilon(tail)
        if self.direction == "remove":
            return self._edge, high
        return -high, -self._edge

    def epsilon(self, delta: float) -> float:
        """Returns the least ε >= 0 at which the step's curve is at most delta."""

        def excess(epsilon: float) -> float:
            return float(self.deltas(np.array([epsilon]))[0]) - delta

        if excess(0.0) <= 0:
            return 0.0
        # Steps on all records have a curve that is nowhere smaller.
        high = epsilon_of_mu(delta, self.records / self.noise_multiplier)
        return first_safe(excess, 0.0, high) if excess(high) <= 0 else high

    @property
    def _numbers(self) -> Floats:
        """0, 1, ..., k."""
        return np.arange(self.records + 1.0)

    @property
    def _log_probabilities(self) -> Floats:
        """Log p_j, [k + 1]."""
        return log_binomial(self.records, self.sample_rate)

    def _exponents(self, v: Floats) -> Floats:
        """Returns x_j at each v; [M] -> [M, k + 1]."""
        share = self._numbers / self.noise_multiplier  # j / σ
        return np.asarray(share * (v[:, None] - share / 2))

    def _starts(self, size: int) -> range:
        return range(0, size, max(MAX_PRODUCTS // (self.records + 1), 1))

    def _chunks(self, values: Floats) -> list[Floats]:
        """Returns the values in chunks whose products with all j fit in memory."""
        starts = self._starts(len(values))
        return [values[i : i + starts.step] for i in starts] or [values]


@lru_cache(maxsize=64)
def log_binomial(trials: int, rate: float) -> Floats:
    """Returns log P(Binomial(trials, rate) = j) for j = 0 ... trials, [trials + 1].

    The probabilities are computed with whole numbers, since the rate is a fraction with
    a power of 2 as its denominator; only the logarithm is rounded.

    >>> np.exp(log_binomial(2, 0.25)).tolist()
    [0.5625, 0.375, 0.0625]
    """
    hits, scale = rate.as_integer_ratio()
    misses = scale - hits
    bits = trials * (scale.bit_length() - 1)
    logs = np.empty(trials + 1)
    count = misses**trials
    for j in range(trials + 1):
        size = count.bit_length()
        mantissa = count / (1 << size)  # from 1/2 to 1, correctly rounded
        logs[j] = math.log(mantissa) + (size - bits) * math.log(2)
        count = count * hits * (trials - j) // (misses * (j + 1))
    logs.flags.writeable = False
    return logs

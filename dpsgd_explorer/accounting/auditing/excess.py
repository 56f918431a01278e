"""A lower bound on a guesser's true positive rate - weight · false positive rate.

The confidence bound inverts the exact test on the difference of two binomial
proportions.  The unknown false positive rate is in a confidence interval, which takes a
share of the error.

Source: tests with an unknown rate: Berger and Boos (1994), JASA 89(427).
"""

from __future__ import annotations

import math
from typing import NamedTuple, Self

import numpy as np
import scipy

from dpsgd_explorer.accounting.auditing.error_rates import ErrorCounts, largest_rate
from dpsgd_explorer.accounting.core.binomial import probability_at_least
from dpsgd_explorer.accounting.core.intervals import Floats

#: Share of the error for the interval of the unknown rate.
RATE_SHARE = 0.02
#: Pieces of this interval, which are tested separately.
RATE_PIECES = 64
#: Bisection steps: the bound is lower by at most 2^-24 of the initial bracket.
HALVINGS = 24
#: Probability of counts that are not summed, on either side; it is added to the result.
NEGLECTED_PROBABILITY = 1e-12
#: Secant steps that narrow the bracket before the bisection, and the step at which they
#: end, as a share of the bracket.
MAX_SECANT_STEPS, MIN_SECANT_STEP = 8, 2.0 ** -(HALVINGS + 1)


def least_excess(counts: ErrorCounts, weight: float, error: float) -> float:
    """Returns a lower bound on true positive rate - weight · false positive rate.

    Args:
        counts: Errors of a guesser.
        weight: Weight of the false positive rate, above 0.
        error: Probability that the bound is too high.
    """
    if not counts.members or not counts.others:
        return -math.inf
    most = (1 - counts.false_negatives / counts.members) - weight * (
        counts.false_positives / counts.others
    )
    rate_error = RATE_SHARE * error
    rates = np.linspace(
        1
        - largest_rate(
            counts.others - counts.false_positives, counts.others, rate_error / 2
        ),
        largest_rate(counts.false_positives, counts.others, rate_error / 2),
        RATE_PIECES + 1,
    )
    low, high = -weight, most
    differences = _Differences.of(counts, weight, most, rates)
    test = _Test(differences, error, rate_error)
    test.approach(low, high, _deviation(counts, weight))
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if test.is_refuted(middle) else (low, middle)
    return low


def _deviation(counts: ErrorCounts, weight: float) -> float:
    """Returns about the standard deviation of the difference, above 0."""

    def variance(count: int, trials: int) -> float:
        rate = (count + 1) / (trials + 2)
        return rate * (1 - rate) / trials

    return math.sqrt(
        variance(counts.false_negatives, counts.members)
        + weight**2 * variance(counts.false_positives, counts.others)
    )


class _Test:
    """The test whether the counts refute a value of the true difference.

    A value is refuted if, in every piece of the rate's interval, so large a difference
    as the measured one has a probability within the error.  This probability rises with
    the true difference.  So all values below a refuted one are refuted, and all values
    above a compatible one are compatible.  A piece that refutes a compatible value
    refutes all smaller values as well; it is dropped.
    """

    def __init__(
        self, differences: _Differences, error: float, rate_error: float
    ) -> None:
        """Begins with all pieces.

        Args:
            differences: Probabilities of the measured difference, for all pieces.
            error: Probability with which the true difference may be refuted.
            rate_error: Part of the error: the rate is outside of its interval.
        """
        self._differences = differences
        self._error, self._rate_error = error, rate_error
        self._refuted, self._compatible = -math.inf, math.inf

    def approach(self, low: float, high: float, deviation: float) -> None:
        """Tests values near the largest refuted one, by secant steps.

        The normal quantile of the probability is about linear in the difference.

        Args:
            low: Smallest value.
            high: Largest value.
            deviation: About the standard deviation of the measured difference.
        """
        target = scipy.special.ndtri(self._error - self._rate_error)
        excess, least = high + deviation * target, MIN_SECANT_STEP * (high - low)
        slope, last = 1 / deviation, None
        for _ in range(MAX_SECANT_STEPS):
            excess = min(max(excess, low), high)
            quantile = scipy.special.ndtri(self._probability(excess))
            if not math.isfinite(quantile):
                return
            if last is not None and excess != last[0] and quantile != last[1]:
                slope = (quantile - last[1]) / (excess - last[0])
            last, step = (excess, quantile), (target - quantile) / slope
            if abs(step) < least:
                return
            # A little beyond the root, so that the next value encloses it.
            excess += step + math.copysign(least, step)

    def is_refuted(self, excess: float) -> bool:
        """Returns True if the counts refute this true difference."""
        if self._refuted < excess < self._compatible:
            self._probability(excess)
        return excess <= self._refuted

    def _probability(self, excess: float) -> float:
        """Returns the largest probability over the pieces; updates both limits."""
        probabilities = self._differences.probabilities_at(excess)
        is_compatible = probabilities + self._rate_error > self._error
        if is_compatible.any():
            self._compatible = min(self._compatible, excess)
            self._differences = self._differences.pieces(is_compatible)
        else:
            self._refuted = max(self._refuted, excess)
        return float(probabilities.max())


class _Differences(NamedTuple):
    """Upper bounds on the probability of a difference as large as the measured one.

    In each piece of the false positive rate, the false positives are counted at the
    lower end of the piece, and the true positives at its upper end.

    Attributes:
        members: Number of canaries that are members.
        weighted_rates: Upper ends of the pieces, times the weight, [R, 1].
        needed: True positives that give the difference, per number of false positives,
            [R, W].
        weights: Probability of each number of false positives, [R, W].
    """

    members: int
    weighted_rates: Floats
    needed: Floats
    weights: Floats

    @classmethod
    def of(
        cls, counts: ErrorCounts, weight: float, measured: float, rates: Floats
    ) -> Self:
        """Returns the quantities that do not depend on the true difference.

        Args:
            counts: Numbers of canaries.
            weight: Weight of the false positive rate.
            measured: The measured difference.
            rates: Ends of the pieces of the false positive rate, rising, [R + 1].
        """
        from scipy import stats  # its import takes 0.7 s

        others = stats.binom(counts.others, rates[:-1, None])
        first = others.ppf(NEGLECTED_PROBABILITY)
        width = int((others.isf(NEGLECTED_PROBABILITY) - first).max()) + 1
        wrong = first + np.arange(width)  # [R, W]
        share = measured + weight * wrong / counts.others
        # Rounding must not make a count that is just enough seem too small.
        needed = np.ceil(counts.members * share - 1e-9)
        rising = weight * rates[1:, None]
        return cls(counts.members, rising, needed, others.pmf(wrong))

    def pieces(self, chosen: np.typing.NDArray[np.bool_]) -> Self:
        """Returns some of the pieces, [R]."""
        return self._replace(
            weighted_rates=self.weighted_rates[chosen],
            needed=self.needed[chosen],
            weights=self.weights[chosen],
        )

    def probabilities_at(self, excess: float) -> Floats:
        """Returns the bound of each piece if the true difference is ``excess``; [R]."""
        hit_rates = np.clip(excess + self.weighted_rates, 0.0, 1.0)
        hits = probability_at_least(self.needed, self.members, hit_rates)
        neglected = 2 * NEGLECTED_PROBABILITY
        return np.asarray((self.weights * hits).sum(axis=1) + neglected)

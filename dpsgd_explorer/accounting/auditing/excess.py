"""By how much a guesser's true positive rate exceeds its weighted false positive rate.

The confidence bound inverts the exact test on the difference of two binomial shares;
its unknown rate lies in an interval that takes a share of the error.

Source: tests with an unknown rate: Berger and Boos (1994), JASA 89(427).
"""

from __future__ import annotations

import math
from typing import NamedTuple, Self

import numpy as np
import scipy

from dpsgd_explorer.accounting.auditing.error_rates import ErrorCounts, largest_rate
from dpsgd_explorer.accounting.core.binomial import at_least
from dpsgd_explorer.accounting.core.intervals import Floats

#: Share of the error for the unknown rate, pieces of its interval.
RATE_SHARE, RATE_PIECES = 0.02, 64
HALVINGS = 24
NEGLECTED = 1e-12  # probability of counts that are not summed, on either side
#: Guesses at the root, at most, and where they end: of the interval.
GUESSES, CLOSE = 8, 2.0 ** -(HALVINGS + 1)


def least_excess(counts: ErrorCounts, weight: float, error: float) -> float:
    """Return a lower bound on true positive rate - weight · false positive rate.

    Args:
        counts: Errors of a guesser.
        weight: Of the false positive rate, above 0.
        error: Probability that the bound is too high.
    """
    if not counts.members or not counts.others:
        return -math.inf
    most = (1 - counts.false_negatives / counts.members) - weight * (
        counts.false_positives / counts.others
    )
    unknown = RATE_SHARE * error
    rates = np.linspace(
        1
        - largest_rate(
            counts.others - counts.false_positives, counts.others, unknown / 2
        ),
        largest_rate(counts.false_positives, counts.others, unknown / 2),
        RATE_PIECES + 1,
    )
    low, high = -weight, most
    differences = _Differences.of(counts, weight, most, rates)
    test = _Test(differences, error, unknown)
    test.guess(low, high, _deviation(counts, weight))
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if test.allows(middle) else (low, middle)
    return low


def _deviation(counts: ErrorCounts, weight: float) -> float:
    """Return about the standard deviation of the difference, above 0."""

    def variance(count: int, trials: int) -> float:
        rate = (count + 1) / (trials + 2)
        return rate * (1 - rate) / trials

    return math.sqrt(
        variance(counts.false_negatives, counts.members)
        + weight**2 * variance(counts.false_positives, counts.others)
    )


class _Test:
    """Whether a true difference is allowed by what was counted.

    What a piece of the rate's interval says rises with the difference.  So larger ones
    than a refused one are refused, smaller ones than an allowed one are allowed, and
    the pieces that allow a refused one refuse none of the smaller ones: they are
    dropped.
    """

    def __init__(self, differences: _Differences, error: float, unknown: float) -> None:
        """Begin with all pieces.

        Args:
            differences: Of all pieces.
            error: The probability that what is allowed is seen is above it.
            unknown: Of it, that the rate is outside of its interval.
        """
        self._differences = differences
        self._error, self._unknown = error, unknown
        self._allowed, self._refused = -math.inf, math.inf

    def guess(self, low: float, high: float, deviation: float) -> None:
        """Try differences near the largest that is allowed.

        The quantile of the chance is about linear in the difference.

        Args:
            low: Least one.
            high: Largest one.
            deviation: About the standard deviation of what is counted.
        """
        wanted = scipy.special.ndtri(self._error - self._unknown)
        at, close = high + deviation * wanted, CLOSE * (high - low)
        slope, before = 1 / deviation, None
        for _ in range(GUESSES):
            at = min(max(at, low), high)
            quantile = scipy.special.ndtri(self._chance(at))
            if not math.isfinite(quantile):
                return
            if before is not None and at != before[0] and quantile != before[1]:
                slope = (quantile - before[1]) / (at - before[0])
            before, step = (at, quantile), (wanted - quantile) / slope
            if abs(step) < close:
                return
            # Beyond the root by as much as is close, so that it will be enclosed.
            at += step + math.copysign(close, step)

    def allows(self, excess: float) -> bool:
        """Return whether the chance is within the error."""
        if self._allowed < excess < self._refused:
            self._chance(excess)
        return excess <= self._allowed

    def _chance(self, excess: float) -> float:
        """Return the chance, and note what follows from it."""
        chances = self._differences.chances_of(excess)
        is_refused = chances + self._unknown > self._error
        if is_refused.any():
            self._refused = min(self._refused, excess)
            self._differences = self._differences.pieces(is_refused)
        else:
            self._allowed = max(self._allowed, excess)
        return float(chances.max())


class _Differences(NamedTuple):
    """How often so large a difference of shares is seen.

    Within each piece of the false positive rate, fewer false positives than at its end
    and more true ones are assumed.

    Attributes:
        members: Number of canaries that are members.
        weighted_rates: Upper ends of the pieces, times the weight, [R, 1].
        needed: True positives that make the difference, [R, W].
        chances: Probability of the false positives that go with them, [R, W].
    """

    members: int
    weighted_rates: Floats
    needed: Floats
    chances: Floats

    @classmethod
    def of(
        cls, counts: ErrorCounts, weight: float, found: float, rates: Floats
    ) -> Self:
        """Return all that does not depend on the true difference.

        Args:
            counts: Numbers of canaries.
            weight: Of the false positive rate.
            found: The difference that was counted.
            rates: Ends of the pieces of the false positive rate, rising, [R + 1].
        """
        from scipy import stats  # its import takes 0.7 s

        others = stats.binom(counts.others, rates[:-1, None])
        first = others.ppf(NEGLECTED)
        width = int((others.isf(NEGLECTED) - first).max()) + 1
        wrong = first + np.arange(width)  # [R, W]
        share = found + weight * wrong / counts.others
        # Rounding must not make a count that is just enough seem too small.
        needed = np.ceil(counts.members * share - 1e-9)
        rising = weight * rates[1:, None]
        return cls(counts.members, rising, needed, others.pmf(wrong))

    def pieces(self, chosen: np.typing.NDArray[np.bool_]) -> Self:
        """Return some of the pieces, [R]."""
        return self._replace(
            weighted_rates=self.weighted_rates[chosen],
            needed=self.needed[chosen],
            chances=self.chances[chosen],
        )

    def chances_of(self, excess: float) -> Floats:
        """Return the probability if the difference is ``excess``, at most; [R]."""
        hits = np.clip(excess + self.weighted_rates, 0.0, 1.0)
        right = at_least(self.needed, self.members, hits)
        return np.asarray((self.chances * right).sum(axis=1) + 2 * NEGLECTED)

"""The bound on a difference of two rates: that of all pieces, halved to the end."""

import math

import numpy as np
import pytest
from scipy import stats

from dpsgd_explorer.accounting.auditing import excess
from dpsgd_explorer.accounting.auditing.error_rates import ErrorCounts, largest_rate
from dpsgd_explorer.accounting.auditing.excess import least_excess

RUN = ErrorCounts(277, 980, 594, 1020)  # of 2,000 canaries, as in most runs
COUNTS = {
    "a run": ErrorCounts(27, 98, 59, 102),
    "rare guesses": ErrorCounts(3, 98, 95, 102),
    "all right": ErrorCounts(0, 50, 0, 40),
    "all wrong": ErrorCounts(50, 50, 40, 40),
    "all guessed": ErrorCounts(50, 50, 0, 40),
    "none guessed": ErrorCounts(0, 50, 40, 40),
    "one of each": ErrorCounts(0, 1, 1, 1),
    "few members": ErrorCounts(4, 60, 1, 3),
}


def by_halving(counts, weight, error):
    """Return the bound, every piece of the unknown rate tried at every difference."""
    right = 1 - counts.false_negatives / counts.members
    seen = right - weight * (counts.false_positives / counts.others)
    unknown = excess.RATE_SHARE * error
    negatives = counts.others - counts.false_positives
    rates = np.linspace(
        1 - largest_rate(negatives, counts.others, unknown / 2),
        largest_rate(counts.false_positives, counts.others, unknown / 2),
        excess.RATE_PIECES + 1,
    )
    wrong = stats.binom(counts.others, rates[:-1, None])
    first = wrong.ppf(excess.NEGLECTED_PROBABILITY)
    numbers = first + np.arange(
        int((wrong.isf(excess.NEGLECTED_PROBABILITY) - first).max()) + 1
    )
    needed = np.ceil(counts.members * (seen + weight * numbers / counts.others) - 1e-9)
    chances_of_wrong = wrong.pmf(numbers)
    low, high = -weight, seen
    for _ in range(excess.HALVINGS):
        middle = (low + high) / 2
        hits = np.clip(middle + weight * rates[1:, None], 0.0, 1.0)
        tails = stats.binom.sf(needed - 1, counts.members, hits)
        chances = (chances_of_wrong * tails).sum(axis=1)
        chance = float(chances.max()) + 2 * excess.NEGLECTED_PROBABILITY + unknown
        low, high = (middle, high) if chance <= error else (low, middle)
    return low


@pytest.mark.parametrize("weight", [1e-3, 1.1, 40.0])
@pytest.mark.parametrize("counts", COUNTS.values(), ids=COUNTS)
def test_the_bound_is_to_the_last_bit_that_of_halving(counts, weight):
    for error in (0.0133, 1e-9):
        expected = by_halving(counts, weight, error)
        assert least_excess(counts, weight, error) == expected


def test_without_canaries_on_both_sides_nothing_is_known():
    for counts in (ErrorCounts(0, 0, 3, 5), ErrorCounts(3, 5, 0, 0)):
        assert least_excess(counts, 1.0, 0.05) == -math.inf


def test_the_bound_takes_few_probabilities(monkeypatch):
    """Halving takes those of all pieces 24 times: 0.1 s at the end of each run."""
    sizes = []
    tail = excess.probability_at_least

    def counting(successes, *rest):
        sizes.append(np.size(successes))
        return tail(successes, *rest)

    monkeypatch.setattr(excess, "probability_at_least", counting)
    least_excess(RUN, 1.1, 0.0133)
    assert sizes[0] == max(sizes)
    assert sum(sizes) < 3 * sizes[0]

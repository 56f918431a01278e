"""The binomial tail is that of scipy.stats, to the bit."""

import numpy as np
import pytest
from scipy import stats

from dpsgd_explorer.accounting.core.binomial import probability_at_least


@pytest.mark.parametrize("trials", [1, 2, 30, 10_000])
def test_the_tail_is_that_of_scipy_stats(trials):
    rates = np.array([0.0, 1e-9, 0.3, 0.5, 0.999, 1.0])[:, None]
    counts = np.unique(np.linspace(-1, trials + 1, 40).round())
    expected = stats.binom.sf(counts - 1, trials, rates)
    np.testing.assert_array_equal(probability_at_least(counts, trials, rates), expected)


def test_nothing_is_tried_and_nothing_succeeds():
    assert probability_at_least([0, 1], 0, 0.5).tolist() == [1.0, 0.0]

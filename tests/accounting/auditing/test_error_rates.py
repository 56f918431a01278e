"""Counts of errors, and the bounds on their rates."""

import numpy as np
import pytest
from scipy import stats

from dpsgd_explorer.accounting.auditing.error_rates import Scores, largest_rate
from dpsgd_explorer.errors import AccountingError


def test_errors_are_counted_on_both_sides_of_a_threshold():
    scores = Scores.of(
        np.array([0.0, 1.0, 2.0, 2.0, 3.0]), np.array([True, False, False, True, True])
    )
    assert scores.errors(1.5) == (1, 2, 1, 3)
    assert scores.errors(2.0) == (0, 2, 2, 3)  # a tie is guessed "did not join"
    assert scores.errors(-np.inf) == (2, 2, 0, 3)


@pytest.mark.parametrize(("count", "trials"), [(0, 1), (0, 50), (7, 50), (49, 50)])
def test_a_larger_rate_would_give_so_few_less_often(count, trials):
    rate = largest_rate(count, trials, 0.01)
    assert stats.binom.cdf(count, trials, rate) == pytest.approx(0.01)


@pytest.mark.parametrize("trials", [0, 1, 9])
def test_nothing_is_known_where_all_were_wrong_or_none_was_tried(trials):
    assert largest_rate(trials, trials, 0.01) == 1.0


def test_a_score_that_is_no_number_is_refused():
    with pytest.raises(AccountingError, match="scores"):
        Scores.of(np.array([0.0, np.nan]), np.array([True, False]))

"""Errors at every threshold, their intervals, and the ceiling above them."""

import numpy as np
import pytest
from scipy import stats

from dpsgd_explorer.accounting import Phase
from dpsgd_explorer.accounting.trade_off_curves import trade_off_intervals
from dpsgd_explorer.audit.attacks.roc import INTERVAL_ERROR, Roc, interval
from dpsgd_explorer.errors import AccountingError, ConfigError

SCORES = np.array([5.0, 4.0, 4.0, 3.0, 2.0, 1.0])
JOINED = np.array([True, True, False, True, False, False])


def gaussian(mu, count, seed=0):
    """Return scores of the best test of N(0, 1) against N(mu, 1), and coins."""
    draw = np.random.default_rng(seed)
    joined = draw.random(count) < 0.5
    return draw.normal(size=count) + mu * joined, joined


def ceiling(mu):
    """Return the exact limit of a Gaussian release, rate by rate."""
    run = [Phase(1.0, 1 / mu, 1)]
    return lambda rates: np.array(
        [x.upper for x in trade_off_intervals(run, rates.tolist())]
    )


def test_errors_are_counted_at_every_threshold_and_ties_together():
    found = Roc.of(SCORES, JOINED)
    assert found.false_positives.tolist() == [0, 0, 1, 1, 2, 3]
    assert found.true_positives.tolist() == [0, 1, 2, 3, 3, 3]
    # of nine pairs the member wins seven and one is a tie
    assert found.area == pytest.approx(7.5 / 9)
    assert [found.at(rate) for rate in (0.0, 0.3, 1 / 3, 1.0)] == [1, 1, 3, 5]


def test_an_interval_leaves_out_what_would_give_the_count_too_rarely():
    low, high = interval(3, 40)
    assert stats.binom.sf(2, 40, low) == pytest.approx(INTERVAL_ERROR / 2)
    assert stats.binom.cdf(3, 40, high) == pytest.approx(INTERVAL_ERROR / 2)
    assert interval(0, 40)[0] == 0
    assert interval(40, 40)[1] == 1


@pytest.mark.parametrize("mu", [0.3, 1.0, 2.5])
def test_the_best_test_of_a_release_is_not_called_beyond_its_ceiling(mu):
    """Six spreads above the ceiling would be needed at each of a few thresholds."""
    found = Roc.of(*gaussian(mu, 20_000))
    places = [found.at(rate) for rate in (0.01, 0.1, 0.3, 0.6)]
    rates = found.true_positive_rates[places]
    most = ceiling(mu)(found.false_positive_rates[places])
    spread = np.sqrt(most * (1 - most) / found.members)
    assert (np.abs(rates - most) < 6 * spread).all()


def test_a_release_with_less_noise_than_promised_is_beyond_the_ceiling():
    found = Roc.of(*gaussian(2.0, 1000))
    above, beyond = found.above(ceiling(1.0))
    assert 200 < beyond <= above
    assert found.above(ceiling(4.0))[1] == 0


def test_chance_above_the_ceiling_is_told_from_what_chance_does_not_explain():
    """Two of four members at no false positive, where one in a hundred is allowed."""
    found = Roc.of(np.array([4.0, 3, 2, 1, 0, -1]), np.array([1, 1, 0, 0, 1, 1], bool))
    above, beyond = found.above(lambda rates: np.maximum(rates, 0.01))
    assert (above, beyond) == (2, 0)


@pytest.mark.parametrize("joined", [np.zeros(6, bool), np.ones(6, bool)], ids=str)
def test_nothing_to_compare_with_is_refused(joined):
    with pytest.raises(ConfigError, match="must have members and non-members"):
        Roc.of(SCORES, joined)


def test_a_score_that_is_no_number_is_refused():
    with pytest.raises(AccountingError, match="scores"):
        Roc.of(np.array([np.nan] * 6), JOINED)

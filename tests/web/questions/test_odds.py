"""The odds of an attacker: a bound that is tight, and rounded up."""

import math

import pytest

from dpsgd_explorer.web.questions.odds import attacker_accuracy, percent_at_most


@pytest.mark.parametrize("e", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("delta", [0.0, 0.01])
def test_the_odds_are_the_most_that_the_promise_allows(e, delta):
    """The best true-positive rate for each false-positive rate on a fine grid."""

    def allowed(fpr):
        return min(math.exp(e) * fpr + delta, 1 - math.exp(-e) * (1 - delta - fpr), 1)

    grid = [i / 5000 for i in range(5001)]
    best = max((allowed(fpr) + 1 - fpr) / 2 for fpr in grid)
    bound = attacker_accuracy(e, delta)
    assert best <= bound * (1 + 1e-12)
    assert best == pytest.approx(bound, rel=1e-3)


def test_odds_are_rounded_up_and_never_read_as_certain():
    assert percent_at_most(0) == "50.0"
    assert percent_at_most(1) == "73.2"  # 73.106
    assert percent_at_most(8) == "99.97"
    assert float(percent_at_most(12)) < 100
    for e in (0.3, 2.0, 5.0):
        assert float(percent_at_most(e)) >= 100 * attacker_accuracy(e)

"""The two limits of an attacker, by name: tight, and rounded up."""

import math

import pytest

from dpsgd_explorer.accounting import Phase, epsilon, trade_off
from dpsgd_explorer.web.questions.odds import (
    Limits,
    attacker_accuracy,
    most_hits,
    percent_at_most,
)


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
    assert percent_at_most(40) == "100"  # not "100.0000": no limit is so fine
    for e in (0.3, 2.0, 5.0):
        assert float(percent_at_most(e)) >= 100 * attacker_accuracy(e)


@pytest.mark.parametrize(("rate", "noise", "steps"), [(0.01, 1.0, 300), (1, 4.0, 3)])
def test_the_limit_of_a_run_is_that_of_its_trade_off_curve_and_below_epsilons(
    rate, noise, steps
):
    """The largest half-sum of hits and quiet along the curve, on a grid of alarms."""
    delta = 1e-5
    spent = epsilon(sample_rate=rate, noise_multiplier=noise, steps=steps, delta=delta)
    both = Limits.of([Phase(rate, noise, steps)], spent, delta)
    alarms = [i / 400 for i in range(401)]
    curve = trade_off(
        sample_rate=rate,
        noise_multiplier=noise,
        steps=steps,
        false_positive_rates=alarms,
    )
    best = max((1 + h - a) / 2 for a, h in zip(alarms, curve, strict=True))
    assert best - 1e-9 <= both.run <= best + 1e-3
    assert both.run < both.alone == attacker_accuracy(spent, delta)
    for alarm, hits in zip(alarms, curve, strict=True):
        assert hits <= most_hits(alarm, spent, delta) + 1e-9
    shown = f"this run: {both.percents['this run']} %; ε alone: "
    assert str(both).startswith(shown)

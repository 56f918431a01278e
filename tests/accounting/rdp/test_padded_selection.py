"""The best of a Poisson number of trials, of which a fixed number is carried out."""

import math
from decimal import Decimal, getcontext

import pytest

from dpsgd_explorer.accounting import Phase, RdpCurve, best_of_trials, padded_selection
from dpsgd_explorer.accounting.rdp.padded_selection import (
    TAIL_SHARE,
    tail,
)
from dpsgd_explorer.errors import AccountingError

TRIAL = RdpCurve.of([Phase(0.03, 1.5, 100)])


def chances(mean, most):
    """P(K = 0), …, P(K = most) by the formula, to 60 digits."""
    getcontext().prec = 60
    chance = (-Decimal(mean)).exp()
    found = [chance]
    for k in range(1, most + 1):
        chance = chance * Decimal(mean) / k
        found.append(chance)
    return found


@pytest.mark.parametrize("mean", [1.0, 10.0, 60.0])
@pytest.mark.parametrize("most", [3, 33, 120])
def test_the_tail_is_that_of_the_formula_and_not_below(mean, most):
    exact = sum(chances(mean, most + 600)[most + 1 :])
    assert exact <= Decimal(tail(mean, most)) <= exact * Decimal("1.00000001")


@pytest.mark.parametrize("mean", [1.0, 10.0, 40.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-10])
def test_no_fewer_trainings_would_keep_within_delta(mean, delta):
    price = padded_selection(TRIAL, mean_trials=mean, delta=delta)
    whole = best_of_trials(TRIAL, mean_trials=mean, shape=math.inf)
    assert price.epsilon == whole.epsilon((1 - TAIL_SHARE) * delta)
    weight = 1 + math.exp(price.epsilon)
    spent = (1 - TAIL_SHARE) * delta + weight * tail(mean, price.trainings)
    fewer = (1 - TAIL_SHARE) * delta + weight * tail(mean, price.trainings - 1)
    assert spent <= delta < fewer
    assert price.tail == tail(mean, price.trainings)
    assert price.none == pytest.approx(float(chances(mean, 0)[0]), rel=1e-12)


def test_a_search_costs_more_than_a_trial_and_than_an_uncut_one():
    price = padded_selection(TRIAL, mean_trials=10.0, delta=1e-5)
    uncut = best_of_trials(TRIAL, mean_trials=10.0, shape=math.inf).epsilon(1e-5)
    assert TRIAL.epsilon(1e-5) < uncut < price.epsilon < 1.01 * uncut


@pytest.mark.parametrize(
    ("trial", "mean", "delta", "field"),
    [
        (TRIAL, 0.5, 1e-5, "mean_trials"),
        (TRIAL, math.nan, 1e-5, "mean_trials"),
        (TRIAL, 10.0, 0.0, "delta"),
        (RdpCurve([2.0, 3.0], [1e4, 1e4]), 10.0, 1e-5, "mean_trials"),
        (RdpCurve([2.0], [math.inf]), 10.0, 1e-5, "mean_trials"),
    ],
)
def test_what_cannot_be_priced_is_refused_by_name(trial, mean, delta, field):
    with pytest.raises(AccountingError) as refusal:
        padded_selection(trial, mean_trials=mean, delta=delta)
    assert refusal.value.field == field

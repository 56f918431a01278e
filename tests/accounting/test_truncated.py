"""Poisson batches that are cut to a largest size."""

import math

import pytest
from dp_accounting import dp_event as events
from dp_accounting.pld import PLDAccountant

from dpsgd_explorer.accounting import (
    delta,
    epsilon,
    truncated_poisson_epsilon,
)
from dpsgd_explorer.errors import AccountingError

RUN = (256 / 60_000, 1.1, 14_062, 1e-5)
SIZE = 60_000


def asked(cap, run=RUN, size=SIZE, **terms):
    return truncated_poisson_epsilon(
        *run, sample_size=size, max_batch_size=cap, **terms
    )


def test_a_cap_far_above_the_batch_loses_nothing():
    found = asked(400)
    assert found.status == "exact"
    assert found.value == found.upper == pytest.approx(epsilon(*RUN), rel=1e-6)
    assert found.lower <= epsilon(*RUN) <= found.upper
    assert asked(SIZE).upper == pytest.approx(epsilon(*RUN), rel=1e-6)


def test_a_nearer_cap_costs_what_its_excess_may():
    near, far = asked(376), asked(384)
    assert near.status == "bound"
    assert near.upper > far.upper > epsilon(*RUN) > far.lower > near.lower
    q, sigma, steps, slack = RUN
    excess = steps * sum(
        math.exp(
            math.lgamma(SIZE + 1)
            - math.lgamma(k + 1)
            - math.lgamma(SIZE - k + 1)
            + k * math.log(q)
            + (SIZE - k) * math.log1p(-q)
        )
        for k in range(377, 700)
    )
    spent = delta(q, sigma, steps, near.upper) + excess * (1 + math.exp(near.upper))
    assert spent <= slack
    assert spent == pytest.approx(slack, rel=1e-3)


def test_it_is_not_below_dp_accountings_own_analysis():
    q, sigma, steps, slack = 0.05, 2.0, 50, 1e-5
    step = events.TruncatedSubsampledGaussianDpEvent(1000, q, 120, sigma)
    accountant = PLDAccountant(value_discretization_interval=1e-3)
    accountant.compose(events.SelfComposedDpEvent(step, steps))
    theirs = accountant.get_epsilon(slack)
    found = asked(120, (q, sigma, steps, slack), 1000)
    assert found.upper >= theirs * (1 - 1e-3)
    assert found.upper == pytest.approx(theirs, rel=0.01)


def test_replaced_records_and_runs_without_noise_or_steps():
    run = (0.01, 4.0, 1000, 1e-5)
    found = asked(300, run, 10_000, neighboring_relation="replace_one")
    assert found.upper == pytest.approx(
        epsilon(*run, neighboring_relation="replace_one"), rel=1e-6
    )
    assert asked(300, (0.01, 0.0, 10, 1e-5)).value == math.inf
    assert asked(300, (0.01, 1.0, 0, 1e-5)).value == 0


@pytest.mark.parametrize("cap", [256, 340])
def test_a_cap_that_is_exceeded_too_often_is_refused(cap):
    with pytest.raises(AccountingError, match="Raise max_batch_size") as caught:
        asked(cap)
    assert caught.value.field == "max_batch_size"


@pytest.mark.parametrize("cap", [0, -3, 2.5, None])
def test_a_cap_is_a_whole_number(cap):
    with pytest.raises(AccountingError, match="max_batch_size must be"):
        asked(cap)

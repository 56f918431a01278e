"""Poisson batches that are cut to a largest size."""

import math

import mpmath as mp
import pytest
from dp_accounting import dp_event as events
from dp_accounting.pld import PLDAccountant

from dpsgd_explorer.accounting import (
    Phase,
    delta,
    epsilon,
    truncated_poisson_epsilon,
)
from dpsgd_explorer.accounting.exact import ExactAccountant
from dpsgd_explorer.accounting.truncated import binomial_tail
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


def exact_tail(size, rate, cap):
    """P(Binomial > cap) by its first term and the continued ratios of the others."""
    with mp.workdps(40):
        size, q, k = mp.mpf(size), mp.mpf(rate), mp.mpf(cap + 1)
        first = mp.loggamma(size + 1) - mp.loggamma(k + 1) - mp.loggamma(size - k + 1)
        first += k * mp.log(q) + (size - k) * mp.log1p(-q)
        term = total = mp.mpf(1)
        while term > total * mp.mpf(10) ** -20:
            term *= (size - k) / (k + 1) * q / (1 - q)
            total, k = total + term, k + 1
        return mp.exp(first) * total


# (1e7, 1e-4, 1300): scipy's function for 32-bit integers was 8.5e-9 too small.
@pytest.mark.parametrize(
    ("size", "rate", "cap"),
    [
        (60_000, 256 / 60_000, 400),
        (10_000_000, 1e-4, 1_300),
        (2**31 + 5, 1e-7, 400),
        (3 * 10**9, 1e-8, 90),
        (10**12, 1e-9, 1_400),
        (10**12, 1e-12, 2),
        (40, 0.5, 39),
    ],
)
def test_a_binomial_tail_is_never_too_small(size, rate, cap):
    truth, found = exact_tail(size, rate, cap), binomial_tail(size, rate, cap)
    assert truth <= found
    assert found == pytest.approx(float(truth), rel=1e-6)


@pytest.mark.parametrize("size", [2**31 - 1, 2**31, 3 * 10**9, 10**12])
def test_data_sets_beyond_32_bits_spend_what_they_spend(size):
    run = (0.1, 1.0, 1000, 1e-5)
    with pytest.raises(AccountingError, match="max_batch_size must be exceeded"):
        asked(1, run, size)
    wide = asked(int(0.1001 * size) + 200_000, run, size)
    assert wide.lower <= epsilon(*run) * (1 + 1e-9)
    assert wide.upper == pytest.approx(epsilon(*run), rel=1e-6)


@pytest.mark.parametrize("slack", [math.nan, 0.0, -1e-9, 1.0, 2.0, math.inf])
def test_no_epsilon_belongs_to_a_delta_that_is_none(slack):
    with pytest.raises(AccountingError, match="delta must be") as caught:
        ExactAccountant().bounds([Phase(0.1, 1.0, 10)], [10], slack)
    assert caught.value.field == "delta"

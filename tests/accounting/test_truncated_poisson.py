"""Truncated Poisson batches: ε, the noise for a target, and the trade-off curve."""

import collections
import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from dp_accounting import dp_event as events
from dp_accounting.pld import PLDAccountant
from scipy import stats

from dpsgd_explorer.accounting import (
    Phase,
    delta,
    epsilon,
    noise_multiplier,
    trade_off,
    truncated_poisson_epsilon,
    truncated_poisson_noise_multiplier,
    truncated_poisson_trade_off,
)
from dpsgd_explorer.accounting.exact.accountant import ExactAccountant
from dpsgd_explorer.accounting.exact.discretized_pld import DiscretizedPlds
from dpsgd_explorer.accounting.exact.pld_bounds import FFT_SIZES
from dpsgd_explorer.accounting.exact.step_losses import DIRECTIONS
from dpsgd_explorer.accounting.exact.truncated_poisson import (
    TruncatedStep,
    binomial_tail,
)
from dpsgd_explorer.errors import AccountingError
from tests.accounting.curves import arrays
from tests.in_order import in_order

RELATIONS = ["add_or_remove_one", "replace_one"]
DATA = {"sample_size": 1000, "max_batch_size": 75}
ALARMS = [0.0, 0.001, 0.1, 0.5, 1.0]
CAPS = (10, 15, 20, 40)  # from the expected batch on
RUN = (256 / 60_000, 1.1, 14_062, 1e-5)
SIZE = 60_000


def asked(cap, run=RUN, size=SIZE, **terms):
    return in_order(
        truncated_poisson_epsilon, *run, sample_size=size, max_batch_size=cap, **terms
    )


def test_a_cap_far_above_the_batch_loses_nothing():
    found = asked(400)
    assert found.status == "exact"
    assert (
        found.value == found.upper == pytest.approx(in_order(epsilon, *RUN), rel=1e-6)
    )
    assert found.lower <= in_order(epsilon, *RUN) <= found.upper
    assert asked(SIZE).upper == pytest.approx(in_order(epsilon, *RUN), rel=1e-6)


# What dp-accounting 0.6 answers with the same cap, rounded up in the last digit.
@pytest.mark.parametrize(
    ("cap", "theirs"), [(256, 12.63), (300, 3.460), (330, 2.3839), (350, 2.3818)]
)
def test_a_near_cap_costs_no_more_than_dp_accounting_says(cap, theirs):
    found = asked(cap)
    assert found.lower < in_order(epsilon, *RUN) < found.upper <= theirs
    assert found.status == ("exact" if cap == 350 else "bound")


@pytest.mark.parametrize("relation", RELATIONS)
def test_epsilon_falls_with_a_cap_above_the_batch(relation):
    run = (0.1, 1.0, 20, 1e-5)
    spent = [asked(cap, run, 100, neighboring_relation=relation) for cap in CAPS]
    upper = [found.upper for found in spent]
    lower = [found.lower for found in spent]
    assert upper == sorted(upper, reverse=True)
    assert lower == sorted(lower)
    whole = in_order(epsilon, *run, neighboring_relation=relation)
    assert all(low <= whole <= high for low, high in zip(lower, upper, strict=True))


def worlds(q, size, cap, record, other):
    """Return the sums of a batch and their probabilities, by going through all draws.

    The others' gradients are all alike.
    """
    sums = collections.Counter()
    for drawn in itertools.product([0, 1], repeat=size):
        members = [i for i, joins in enumerate(drawn) if joins]
        chance = math.prod(q if joins else 1 - q for joins in drawn)
        kept = list(itertools.combinations(members, min(cap, len(members))))
        for batch in kept:
            total = sum(record if i == 0 else other for i in batch)
            sums[total] += chance / len(kept)
    return sums


def hockey_stick(ones, others, sigma, loss):
    z = np.arange(-14, 14, 1e-3)

    def density(sums):
        return sum(p * stats.norm.pdf(z, s, sigma) for s, p in sums.items())

    gain = density(ones) - math.exp(loss) * density(others)
    return np.maximum(gain, 0).sum() * 1e-3


@pytest.mark.parametrize(("record", "other"), [(1, 0), (1, -1), (1, 1), (1, -0.5)])
@pytest.mark.parametrize(("q", "cap"), [(0.5, 2), (0.3, 1), (0.9, 3), (1.0, 2)])
@pytest.mark.parametrize("relation", RELATIONS)
def test_one_step_lies_between_its_sides_whatever_the_others(
    q, cap, record, other, relation
):
    size, sigma, at_delta = 5, 1.3, 0.02
    found = asked(cap, (q, sigma, 1, at_delta), size, neighboring_relation=relation)
    here = worlds(q, size, cap, record, other)
    if relation == "replace_one":
        there = worlds(q, size, cap, -record, other)
    else:
        there = worlds(q, size - 1, cap, other, other)
    for ones, others in ((here, there), (there, here)):
        assert hockey_stick(ones, others, sigma, found.upper) <= at_delta * (1 + 1e-6)
    if other == 0:
        reached = [
            hockey_stick(ones, others, sigma, found.lower)
            for ones, others in ((here, there), (there, here))
        ]
        assert max(reached) == pytest.approx(at_delta, rel=1e-3)


@pytest.mark.parametrize("relation", RELATIONS)
def test_two_steps_are_what_one_convolved_with_itself_is(relation):
    q, sigma, at_delta, size, cap = 0.2, 1.2, 1e-3, 40, 8
    found = asked(cap, (q, sigma, 2, at_delta), size, neighboring_relation=relation)
    step = TruncatedStep(q, sigma, size, cap)
    spent = []
    for way in DIRECTIONS[relation]:
        loss = step.loss(way)
        v = np.arange(-20, 25, 5e-3)
        total = 0.0
        for weight, part in zip(loss.weights, loss.parts, strict=True):
            log_density, losses, _ = part._log_integrand(v)
            chance = weight * np.exp(log_density) / math.sqrt(2 * math.pi) * 5e-3
            total += chance @ loss.deltas(found.upper - losses)
        spent.append(total)
    assert max(spent) == pytest.approx(at_delta, rel=1e-4)
    assert max(spent) <= at_delta * (1 + 1e-9)


def test_much_less_noise_costs_what_an_excess_may():
    q, sigma, steps, at_delta = 256 / 60_000, 0.19, 3, 1e-5
    near, far = (asked(cap, (q, sigma, steps, at_delta)) for cap in (410, 430))
    assert (
        near.upper
        > far.upper
        >= epsilon(sample_rate=q, noise_multiplier=sigma, steps=steps, delta=at_delta)
        > near.lower
    )
    excess = steps * sum(
        math.exp(
            math.lgamma(SIZE + 1)
            - math.lgamma(k + 1)
            - math.lgamma(SIZE - k + 1)
            + k * math.log(q)
            + (SIZE - k) * math.log1p(-q)
        )
        for k in range(411, 700)
    )
    spent = delta(
        sample_rate=q, noise_multiplier=sigma, steps=steps, epsilon=near.upper
    ) + excess * (1 + math.exp(near.upper))
    assert spent <= at_delta
    assert spent == pytest.approx(at_delta, rel=1e-3)


@pytest.mark.parametrize("cap", [60, 75, 120])
def test_it_is_dp_accountings_analysis_or_tighter(cap):
    q, sigma, steps, at_delta = 0.05, 2.0, 50, 1e-5
    step = events.TruncatedSubsampledGaussianDpEvent(1000, q, cap, sigma)
    accountant = PLDAccountant(value_discretization_interval=1e-3)
    accountant.compose(events.SelfComposedDpEvent(step, steps))
    theirs = accountant.get_epsilon(at_delta)
    found = asked(cap, (q, sigma, steps, at_delta), 1000)
    assert 0.8 * theirs <= found.upper <= theirs
    assert (
        found.lower
        <= epsilon(sample_rate=q, noise_multiplier=sigma, steps=steps, delta=at_delta)
        <= found.upper * (1 + 1e-9)
    )


def test_replaced_records_and_runs_without_noise_or_steps():
    run = (0.01, 4.0, 1000, 1e-5)
    found = asked(300, run, 10_000, neighboring_relation="replace_one")
    assert found.upper == pytest.approx(
        in_order(epsilon, *run, neighboring_relation="replace_one"), rel=1e-6
    )
    assert asked(300, (0.01, 0.0, 10, 1e-5)).value == math.inf
    assert asked(300, (0.01, 1.0, 0, 1e-5)).value == 0


@pytest.mark.parametrize("cap", [256, 340])
def test_with_so_little_noise_a_cap_that_is_exceeded_too_often_is_refused(cap):
    with pytest.raises(AccountingError, match="Raise max_batch_size") as caught:
        asked(cap, (256 / 60_000, 0.19, 14_062, 1e-5))
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
    single = asked(1, run, size)  # a record is in it about once in 2³¹ steps
    assert single.upper <= epsilon(
        sample_rate=1e-9, noise_multiplier=0.5, steps=1000, delta=1e-5
    )
    wide = asked(int(0.1001 * size) + 200_000, run, size)
    assert wide.lower <= in_order(epsilon, *run) * (1 + 1e-9)
    assert wide.upper == pytest.approx(in_order(epsilon, *run), rel=1e-6)


@pytest.mark.parametrize("at_delta", [math.nan, 0.0, -1e-9, 1.0, 2.0, math.inf])
def test_no_epsilon_belongs_to_a_delta_that_is_none(at_delta):
    with pytest.raises(AccountingError, match="delta must be") as caught:
        arrays(ExactAccountant().bounds([Phase(0.1, 1.0, 10)], [10], at_delta))
    assert caught.value.field == "delta"


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_noise_for_a_target_keeps_it_and_hardly_less_does_not(relation):
    run, terms = (0.05, 100, 1e-5), DATA | {"neighboring_relation": relation}
    noise = in_order(truncated_poisson_noise_multiplier, 2.0, *run, **terms)

    def spent(sigma):
        return truncated_poisson_epsilon(
            sample_rate=0.05, noise_multiplier=sigma, steps=100, delta=1e-5, **terms
        ).value

    assert spent(noise) <= 2.0 < spent(noise * (1 - 1e-4))
    assert noise > in_order(noise_multiplier, 2.0, *run, "exact", relation)


def test_a_wide_cap_needs_the_noise_of_uncut_batches():
    for cap in (150, 1000, 5000):
        wide = DATA | {"max_batch_size": cap}
        noise = truncated_poisson_noise_multiplier(
            target_epsilon=2.0, sample_rate=0.05, steps=100, delta=1e-5, **wide
        )
        uncut = noise_multiplier(
            target_epsilon=2.0, sample_rate=0.05, steps=100, delta=1e-5
        )
        assert noise == pytest.approx(uncut, rel=1e-4)


def test_where_the_bound_jumps_the_noise_is_above_the_jump():
    data = {"sample_size": 1000, "max_batch_size": 600}
    noise = truncated_poisson_noise_multiplier(
        target_epsilon=200.0, sample_rate=0.5, steps=5, delta=1e-5, **data
    )
    assert noise == 0.2
    assert (
        truncated_poisson_epsilon(
            sample_rate=0.5, noise_multiplier=noise, steps=5, delta=1e-5, **data
        ).value
        <= 200
    )
    with pytest.raises(AccountingError, match="max_batch_size"):
        truncated_poisson_epsilon(
            sample_rate=0.5, noise_multiplier=0.1999, steps=5, delta=1e-5, **data
        )


def test_little_noise_may_be_enough_though_less_has_no_answer():
    noise = truncated_poisson_noise_multiplier(
        target_epsilon=60.0, sample_rate=0.05, steps=1, delta=1e-5, **DATA
    )
    found = truncated_poisson_epsilon(
        sample_rate=0.05, noise_multiplier=noise, steps=1, delta=1e-5, **DATA
    )
    assert found.value <= 60.0


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("cap", [50, 75])
def test_the_curve_lies_between_its_sides_and_above_the_uncut_one(cap, relation):
    run, terms = (0.05, 1.5, 100), {"sample_size": 1000, "max_batch_size": cap}
    rates = {"false_positive_rates": ALARMS, "neighboring_relation": relation}
    found = arrays(in_order(truncated_poisson_trade_off, *run, **rates, **terms))
    low, high = found.lower, found.upper
    uncut = np.array(in_order(trade_off, *run, **rates))
    assert np.all(low <= high)
    assert np.all(low <= uncut + 1e-9)
    assert np.all(high >= uncut - 5e-3)  # from fewer pairs of ε and δ
    for at_delta in (1e-5, 1e-2):
        setting = (*run, at_delta)
        loss = asked(cap, setting, 1000, neighboring_relation=relation).value
        pair = np.minimum(np.exp(loss) * np.array(ALARMS) + at_delta, 1)
        assert np.all(low <= pair + 1e-9)


def test_the_ends_of_a_curve():
    rates = {"false_positive_rates": ALARMS, **DATA}
    still = arrays(
        truncated_poisson_trade_off(
            sample_rate=0.05, noise_multiplier=1.0, steps=0, **rates
        )
    )
    assert still.lower.tolist() == ALARMS
    assert still.upper == pytest.approx(ALARMS, abs=1e-8)
    open_ = arrays(
        truncated_poisson_trade_off(
            sample_rate=0.05, noise_multiplier=0.0, steps=5, **rates
        )
    )
    assert open_.upper.tolist() == [1.0] * len(ALARMS)


def test_a_target_that_no_noise_reaches_is_refused():
    with pytest.raises(AccountingError, match="target_epsilon must be at least"):
        truncated_poisson_noise_multiplier(
            target_epsilon=1e-12, sample_rate=1.0, steps=10**6, delta=1e-15, **DATA
        )


# Each of 37 values of δ refined its discrete losses to the last: 2 to 6 seconds.
def test_a_curve_of_two_cut_batches_takes_no_fine_grids(monkeypatch):
    sizes = []
    original = DiscretizedPlds.__init__

    def counted(self, losses, window, points):
        sizes.append(points)
        original(self, losses, window, points)

    monkeypatch.setattr(DiscretizedPlds, "__init__", counted)
    few = {"sample_size": 26_130, "max_batch_size": 18}
    found = arrays(
        truncated_poisson_trade_off(
            sample_rate=3e-5,
            noise_multiplier=0.42,
            steps=3,
            false_positive_rates=[0.01],
            **few,
        )
    )
    assert found.lower[0] <= found.upper[0]
    assert FFT_SIZES[0] <= max(sizes) <= FFT_SIZES[1]
    assert sizes.count(FFT_SIZES[1]) <= 3  # of the curve from below

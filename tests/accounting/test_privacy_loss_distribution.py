"""Privacy loss distributions as data."""

import json
import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as theirs

from dpsgd_explorer.accounting import (
    LossDistribution,
    Odometer,
    Phase,
    PrivacyLossDistribution,
    delta,
    epsilon,
)
from dpsgd_explorer.errors import AccountingError
from tests.in_order import in_order

RELATIONS = ["add_or_remove_one", "replace_one"]
RUNS = [(256 / 60_000, 1.1, 14_062), (0.01, 1.0, 1), (1.0, 10.0, 100), (0.3, 0.6, 5)]
DELTA = 1e-5


def from_elsewhere(pld):
    pmfs = (pld._pmf_remove, pld._pmf_add)
    return PrivacyLossDistribution(
        tuple(
            LossDistribution(
                pmf._discretization, pmf._lower_loss, pmf._probs, pmf._infinity_mass
            )
            for pmf in (pmf.to_dense_pmf() for pmf in pmfs)
        )
    )


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("relation", RELATIONS)
def test_it_reads_as_the_exact_accountant_or_a_little_above(run, relation):
    found = PrivacyLossDistribution.of([Phase(*run)], relation)
    loss = in_order(epsilon, *run, DELTA, "exact", relation)
    assert loss * (1 - 1e-7) <= found.epsilon(DELTA) <= loss * (1 + 2e-5)
    for share in (0.0, 0.5, 0.9):
        truth = in_order(delta, *run, share * loss, "exact", relation)
        assert truth * (1 - 1e-6) <= found.delta(share * loss) <= truth * (1 + 2e-4)


def test_few_steps_on_tiny_samples_are_composed_step_by_step():
    run = (1e-5, 0.8, 100)
    found = PrivacyLossDistribution.of([Phase(*run)], interval=1e-3)
    loss = in_order(epsilon, *run, DELTA)
    assert loss <= found.epsilon(DELTA) <= loss + 2e-3  # two intervals


def test_a_step_composed_with_itself_is_the_run():
    step = PrivacyLossDistribution.of([Phase(0.01, 1.0, 1)], interval=1e-3)
    for count in (1, 2, 7, 100):
        loss = epsilon(sample_rate=0.01, noise_multiplier=1.0, steps=count, delta=DELTA)
        assert loss <= step.self_compose(count).epsilon(DELTA) <= loss * (1 + 3e-4)


def test_phases_and_distributions_compose_alike():
    odometer = Odometer()
    odometer.add_dp_sgd(0.01, 1.1, 500)
    odometer.add_gaussian(5.0)
    loss = odometer.epsilon(DELTA)
    whole = odometer.privacy_loss_distribution(interval=2e-3)
    parts = [
        PrivacyLossDistribution.of([phase], interval=2e-3) for phase in odometer.phases
    ]
    both = parts[0].compose(parts[1])
    for found in (whole, both, parts[1].compose(parts[0])):
        assert loss <= found.epsilon(DELTA) <= loss * (1 + 1e-4)


def test_a_distribution_from_elsewhere_composes_as_elsewhere():
    laplace = theirs.from_laplace_mechanism(4.0, value_discretization_interval=1e-3)
    gauss = theirs.from_gaussian_mechanism(9.0, value_discretization_interval=1e-3)
    foreign = from_elsewhere(laplace)
    assert foreign.epsilon(1e-3) == pytest.approx(
        laplace.get_epsilon_for_delta(1e-3), rel=1e-6
    )
    ours = foreign.compose(
        PrivacyLossDistribution.of([Phase(1.0, 9.0, 1)], interval=1e-3)
    )
    both = laplace.compose(gauss)
    for at_delta in (1e-2, 1e-4):
        assert ours.epsilon(at_delta) == pytest.approx(
            both.get_epsilon_for_delta(at_delta), rel=1e-4
        )


def test_delta_is_the_sum_over_the_losses():
    loss = LossDistribution(0.5, -2, [0.1, 0.2, 0.3, 0.2, 0.1], 0.1)
    asked = np.array([-3.0, -1.0, -0.3, 0.0, 0.2, 0.5, 0.9, 1.0, 4.0])
    gains = 1 - np.exp(asked[:, None] - loss.losses)
    truth = np.maximum(gains, 0) @ loss.probabilities + 0.1
    np.testing.assert_allclose(loss.deltas(asked), truth, rtol=1e-8)
    assert loss.epsilon(0.1) == math.inf
    for at_delta in (0.1000001, 0.12, 0.2, 0.3, 0.5):
        spent = loss.epsilon(at_delta)
        assert loss.deltas([spent])[0] <= at_delta * (1 + 1e-12)
        if spent:
            assert loss.deltas([spent * (1 - 1e-6)])[0] > at_delta


def test_two_discrete_losses_add_up():
    one = LossDistribution(0.1, -1, [0.25, 0.5, 0.15], 0.1)
    two = LossDistribution(0.1, 3, [0.9], 0.1)
    both = one.compose(two)
    assert (both.first, both.infinite) == (2, pytest.approx(0.19))
    np.testing.assert_allclose(both.probabilities, 0.9 * one.probabilities)


def test_a_trimmed_loss_is_larger_by_the_tail_at_most():
    step = PrivacyLossDistribution.of([Phase(1.0, 1.0, 1)]).directions[0]
    small, asked = step.trimmed(1e-6), np.linspace(-3, 6, 50)
    assert len(small.probabilities) < 0.8 * len(step.probabilities)
    gain = small.deltas(asked) - step.deltas(asked)
    assert np.all(gain >= -1e-15)
    assert gain.max() <= 2e-6


def test_the_curve_below_some_points_is_convex_and_as_large_as_can_be():
    losses = 0.2 * np.arange(-5, 6)
    truth = PrivacyLossDistribution.of([Phase(1.0, 2.0, 1)]).directions[0]
    known = truth.deltas(losses)
    bumps = known * (1 + 0.3 * np.random.default_rng(3).random(len(known)))
    found = LossDistribution.below(0.2, -5, bumps)
    fine = np.linspace(-1.0, 1.0, 101)
    assert np.all(found.deltas(fine) >= truth.deltas(fine) * (1 - 1e-9))
    assert np.all(found.deltas(losses) <= bumps * (1 + 1e-8))


def test_nothing_done_and_no_noise():
    nothing = PrivacyLossDistribution.of([])
    assert (nothing.epsilon(DELTA), nothing.delta(0.0)) == (0.0, 0.0)
    hidden = PrivacyLossDistribution.of([Phase(1.0, 1e12, 1)], interval=1e-3)
    assert hidden.epsilon(DELTA) == 0.0
    with pytest.raises(AccountingError, match="phases must be"):
        PrivacyLossDistribution.of([Phase(0.1, 0.0, 1)])


def test_it_comes_back_from_json_to_the_last_digit():
    for relation in RELATIONS:
        kept = PrivacyLossDistribution.of([Phase(0.01, 1.0, 10)], relation)
        back = PrivacyLossDistribution.from_json(kept.to_json())
        assert back.to_json() == kept.to_json()
        assert back.epsilon(DELTA) == kept.epsilon(DELTA)


GOOD = {"interval": 0.5, "first": 0, "probabilities": [0.5, 0.5], "infinite": 0.0}


@pytest.mark.parametrize(
    "change",
    [
        {"interval": 0},
        {"interval": math.nan},
        {"first": 0.5},
        {"first": 10**9},
        {"probabilities": []},
        {"probabilities": [0.5, 0.4]},
        {"probabilities": [1.5, -0.5]},
        {"probabilities": [[1.0]]},
        {"probabilities": ["a", "b"]},
        {"infinite": -0.1},
        {"infinite": 0.5},
        {"other": 1},
    ],
)
def test_what_is_no_distribution_is_refused(change):
    data = {
        "version": 1,
        "kind": "privacy_loss_distribution",
        "neighboring_relation": "replace_one",
        "directions": [GOOD | change],
    }
    with pytest.raises(AccountingError):
        PrivacyLossDistribution.from_json(json.dumps(data))
    whole = json.dumps(data | {"directions": [GOOD]})
    assert PrivacyLossDistribution.from_json(whole).delta(0.0) == pytest.approx(
        0.5 * -math.expm1(-0.5)
    )


def test_losses_that_do_not_fit_are_not_composed():
    one, other = LossDistribution(0.5, 0, [1.0]), LossDistribution(0.25, 0, [1.0])
    with pytest.raises(AccountingError, match="interval must be"):
        one.compose(other)
    single = PrivacyLossDistribution((one,), "replace_one")
    with pytest.raises(AccountingError, match="neighboring_relation"):
        single.compose(PrivacyLossDistribution((one, one)))
    with pytest.raises(AccountingError, match="directions must be"):
        PrivacyLossDistribution((one,))
    wide = LossDistribution(0.01, 0, np.full(40_000, 1 / 40_000))
    with pytest.raises(AccountingError, match="probabilities must be fewer"):
        wide.compose(wide)


@pytest.mark.parametrize("interval", [0, -1.0, 1e-9, math.nan])
def test_an_interval_is_neither_nothing_nor_too_small(interval):
    with pytest.raises(AccountingError, match="interval must be"):
        PrivacyLossDistribution.of([Phase(1.0, 1.0, 1)], interval=interval)


def test_a_distribution_of_thousands_of_losses_is_shown_in_a_line():
    found = PrivacyLossDistribution.of([Phase(0.01, 1.1, 500)])
    assert [len(way.losses) > 1000 for way in found.directions] == [True, True]
    assert len(repr(found)) < 200
    assert repr(found).endswith(", 'add_or_remove_one')")

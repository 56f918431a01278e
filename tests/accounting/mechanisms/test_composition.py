"""Other mechanisms in an odometer: bounds on both sides of integrals of our own."""

import json
import math
from functools import reduce
from itertools import pairwise

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as theirs
from scipy.integrate import quad
from scipy.optimize import brentq

from dpsgd_explorer.accounting import (
    DiscreteGaussianMechanism,
    EpsilonDelta,
    LaplaceMechanism,
    Odometer,
    Phase,
    PrivacyLossDistribution,
    RandomizedResponse,
    delta,
    epsilon,
    gaussian_delta,
    gaussian_epsilon,
)
from dpsgd_explorer.accounting.core.gaussian import deltas_of_mu
from dpsgd_explorer.accounting.mechanisms.composition import smaller_loss
from dpsgd_explorer.accounting.theorems.randomized_response import composed_epsilons
from dpsgd_explorer.errors import AccountingError

DELTA = 1e-5
#: Relative error of the integrals below.
ERROR = 1e-9


def gaussian_at(loss, mu):
    return float(deltas_of_mu(np.array([loss]), mu)[0])


def laplace_with_gaussian(loss, largest, mu):
    """Return δ: the mean over Laplace's losses of the Gaussian's δ at the rest."""
    ends = 0.5 * gaussian_at(loss - largest, mu)
    ends += 0.5 * math.exp(-largest) * gaussian_at(loss + largest, mu)
    inside, _ = quad(
        lambda x: 0.25 * math.exp((x - largest) / 2) * gaussian_at(loss - x, mu),
        -largest,
        largest,
        epsabs=1e-16,
        epsrel=1e-11,
        limit=400,
    )
    return ends + inside


def root(curve):
    return brentq(lambda x: curve(x) - DELTA, 0.0, 60.0, xtol=1e-13, rtol=1e-13)


@pytest.mark.parametrize("scale", [0.5, 2.0, 40.0])
@pytest.mark.parametrize("noise", [0.8, 5.0])
def test_laplace_and_gaussian_enclose_their_integral(scale, noise):
    ledger = Odometer()
    ledger.add_gaussian(noise)
    ledger.add(LaplaceMechanism(scale, sensitivity=0.5))
    truth = root(lambda x: laplace_with_gaussian(x, 0.5 / scale, 1 / noise))
    spent = ledger.epsilon_interval(DELTA)
    assert spent.lower <= truth * (1 + ERROR)
    assert truth * (1 - ERROR) <= spent.upper <= spent.lower * (1 + 1e-4)
    assert spent.status == "exact"
    at_one = laplace_with_gaussian(1.0, 0.5 / scale, 1 / noise)
    assert at_one * (1 - 1e-7) <= ledger.delta(1.0) <= at_one * (1 + 1e-2) + 1e-12


def test_a_replaced_record_doubles_the_sensitivity():
    ledger = Odometer()
    ledger.add_gaussian(5.0)
    ledger.add(LaplaceMechanism(2.0))
    truth = root(lambda x: laplace_with_gaussian(x, 1.0, 2 / 5.0))
    spent = ledger.epsilon_interval(DELTA, neighboring_relation="replace_one")
    assert spent.lower <= truth * (1 + ERROR)
    assert truth * (1 - ERROR) <= spent.upper <= truth * (1 + 1e-4)


def test_repeated_answers_are_the_optimal_composition():
    one = np.ones(1)
    for count, loss in ((1, 1.0), (7, 0.3), (100, 0.1), (10_000, 0.01)):
        [truth] = composed_epsilons(count * one, loss * one, DELTA * one)
        ledger = Odometer()
        ledger.add(RandomizedResponse(2 / (1 + math.exp(loss))), count=count)
        spent = ledger.epsilon_interval(DELTA, neighboring_relation="replace_one")
        assert spent.lower <= truth * (1 + 1e-7)
        assert truth * (1 - 1e-7) <= spent.upper <= truth * (1 + 1e-4)
        box = Odometer()
        box.add(EpsilonDelta(loss), count=count)
        assert box.epsilon_interval(DELTA).lower == 0
        assert box.epsilon(DELTA) == pytest.approx(spent.upper, rel=1e-4)


def test_dp_sgd_with_a_mechanism_that_tells_nothing_is_dp_sgd():
    run = {"sample_rate": 0.01, "noise_multiplier": 1.1, "steps": 1000}
    ledger = Odometer()
    ledger.add_dp_sgd(**run)
    ledger.add(LaplaceMechanism(1e9))
    alone = epsilon(**run, delta=DELTA)
    spent = ledger.epsilon_interval(DELTA)
    assert spent.lower <= alone <= spent.upper * (1 + 1e-9)
    assert spent.status == "exact"
    assert ledger.delta(1.0) == pytest.approx(delta(**run, epsilon=1.0), rel=1e-3)
    asked = [0.01, 0.1]
    whole = Odometer()
    whole.add_dp_sgd(**run)
    pairs = zip(ledger.trade_off(asked), whole.trade_off(asked), strict=True)
    for found, truth in pairs:
        assert found.lower <= truth.upper
        assert truth.lower <= found.upper == pytest.approx(truth.upper, rel=1e-2)


@pytest.mark.parametrize("count", [1, 20])
def test_laplace_and_dp_sgd_are_within_the_distributions_of_dp_accounting(count):
    ledger = Odometer()
    ledger.add_dp_sgd(0.02, 1.0, 100)
    ledger.add(LaplaceMechanism(8.0), count=count)
    grid = {"value_discretization_interval": 1e-3}
    laplace = theirs.from_laplace_mechanism(8.0, **grid).self_compose(count)
    steps = theirs.from_gaussian_mechanism(1.0, sampling_prob=0.02, **grid)
    both = steps.self_compose(100).compose(laplace)
    peer = both.get_epsilon_for_delta(DELTA)
    spent = ledger.epsilon_interval(DELTA)
    assert spent.lower <= peer
    assert spent.upper == pytest.approx(peer, rel=1e-3)


def test_the_discrete_gaussian_is_its_sum():
    scale, sensitivity = 3.0, 2
    k = np.arange(-200, 201)
    p, q = (np.exp(-((k - at) ** 2) / (2 * scale**2)) for at in (sensitivity, 0))
    for loss in (0.0, 0.3, 2.0):
        truth = np.maximum(p - math.exp(loss) * q, 0).sum() / q.sum()
        ledger = Odometer()
        ledger.add(DiscreteGaussianMechanism(scale, sensitivity))
        assert truth * (1 - 1e-9) <= ledger.delta(loss) <= truth * (1 + 5e-3)
    wide = Odometer()
    wide.add(DiscreteGaussianMechanism(400.0, 20))
    near = gaussian_epsilon(delta=DELTA, noise_multiplier=20.0)
    assert wide.epsilon(DELTA) == pytest.approx(near, rel=1e-3)


def test_randomized_response_with_many_buckets():
    answer = RandomizedResponse(0.25, num_buckets=10)
    true, other = 0.775, 0.025
    for loss in (0.0, 1.0, 3.0):
        ledger = Odometer()
        ledger.add(answer)
        truth = true - math.exp(loss) * other
        found = ledger.delta(loss, neighboring_relation="replace_one")
        assert found == pytest.approx(truth, rel=1e-3)
        assert found >= truth * (1 - 1e-12)


def test_a_guarantee_adds_its_delta():
    ledger = Odometer()
    ledger.add_gaussian(2.0)
    ledger.add(EpsilonDelta(0.0, 1e-3))
    truth = 1e-3 + (1 - 1e-3) * gaussian_delta(epsilon=1.0, noise_multiplier=2.0)
    assert truth * (1 - 1e-9) <= ledger.delta(1.0) <= truth * (1 + 1e-3)
    assert ledger.epsilon(1e-4) == math.inf


@pytest.mark.parametrize("relation", ["add_or_remove_one", "replace_one"])
def test_mechanisms_that_tell_nothing_cost_nothing(relation):
    silent = Odometer()
    silent.add(EpsilonDelta(0.0, 0.0))
    if relation == "replace_one":
        silent.add(RandomizedResponse(1.0))
    assert silent.epsilon(DELTA, neighboring_relation=relation) == 0
    assert silent.delta(0.5, neighboring_relation=relation) == 0
    rates = [0.0, 0.1, 0.5, 0.9]
    hits = silent.trade_off(rates, neighboring_relation=relation)
    assert all(x.value >= r for x, r in zip(hits, rates, strict=True))


def test_a_failure_without_loss_is_infinite_below_its_delta():
    ledger = Odometer()
    ledger.add(EpsilonDelta(0.0, 1e-6))
    assert ledger.epsilon(1e-5) == 0
    assert ledger.epsilon(1e-7) == math.inf
    assert ledger.delta(0.5) == pytest.approx(1e-6, rel=1e-5)


def test_a_distribution_counts_as_an_upper_bound():
    step = PrivacyLossDistribution.of([Phase(0.01, 1.0, 50)])
    ledger = Odometer()
    ledger.add_gaussian(10.0)
    ledger.add(step, count=2)
    truth = Odometer()
    truth.add_gaussian(10.0)
    truth.add_dp_sgd(0.01, 1.0, 100)
    spent, alone = ledger.epsilon_interval(DELTA), truth.epsilon(DELTA)
    assert alone * (1 - 1e-9) <= spent.upper <= alone * (1 + 1e-3)
    assert spent.lower <= gaussian_epsilon(delta=DELTA, noise_multiplier=10.0)
    with pytest.raises(AccountingError, match="neighboring_relation must be"):
        ledger.epsilon(DELTA, neighboring_relation="replace_one")


def test_losses_beyond_every_grid_are_added_up():
    ledger = Odometer()
    ledger.add_gaussian(0.02)
    ledger.add(LaplaceMechanism(0.01))
    alone = gaussian_epsilon(delta=DELTA / 2, noise_multiplier=0.02)
    assert ledger.epsilon(DELTA) == pytest.approx(alone + 100)
    assert ledger.epsilon_interval(DELTA).lower >= alone * 0.99
    bare = Odometer()
    bare.add_dp_sgd(0.01, 0.0, 5)
    bare.add(LaplaceMechanism(1.0))
    assert bare.epsilon(DELTA) == math.inf


def test_the_distribution_of_all_entries_reads_as_the_odometer():
    ledger = Odometer()
    ledger.add_gaussian(4.0)
    ledger.add(LaplaceMechanism(2.0))
    whole = ledger.privacy_loss_distribution()
    assert whole.epsilon(DELTA) == pytest.approx(ledger.epsilon(DELTA), rel=1e-3)
    assert ledger.epsilons(DELTA).keys() == {"exact"}


def test_the_smaller_curve_is_below_a_curve_with_noisy_bounds():
    width, points = 0.05, 120
    losses = width * np.arange(points)
    truth = deltas_of_mu(losses, 0.7)
    noise = np.random.default_rng(4).uniform(0, 1e-6, (2, points))
    pair = truth * (1 - noise[0]), truth * (1 + noise[1])
    found = smaller_loss(width, pair, pair)
    fine = np.linspace(-4.0, 4.0, 1001)
    below = found.deltas(fine)
    assert np.all(below <= deltas_of_mu(fine, 0.7) * (1 + 1e-9) + 1e-15)
    assert found.epsilon(1e-3) > 0.99 * gaussian_epsilon(
        delta=1e-3, noise_multiplier=1 / 0.7
    )


def test_an_odometer_with_other_mechanisms_comes_back_from_json():
    ledger = Odometer()
    ledger.add_dp_sgd(0.02, 1.5, 30)
    ledger.add(LaplaceMechanism(np.float64(2.0)), "count", 3)
    ledger.add(DiscreteGaussianMechanism(4.0, 2))
    ledger.add(RandomizedResponse(0.5, 3))
    ledger.add(EpsilonDelta(0.1, 1e-7))
    ledger.add(PrivacyLossDistribution.of([Phase(0.01, 1.0, 5)], "replace_one"))
    again = Odometer.from_json(ledger.to_json())
    assert again.to_json() == ledger.to_json()
    terms = {"neighboring_relation": "replace_one"}
    assert again.epsilon(DELTA, **terms) == ledger.epsilon(DELTA, **terms)
    data = json.loads(ledger.to_json())
    for change in ({"mechanism": "gauss"}, {"settings": {"b": 1.0}}, {"count": 0}):
        entries = [data["entries"][1] | change]
        with pytest.raises(AccountingError):
            Odometer.from_json(json.dumps(data | {"entries": entries}))


def test_an_accountant_or_a_search_that_does_not_apply_is_rejected():
    ledger = Odometer()
    ledger.add(RandomizedResponse(0.5))
    with pytest.raises(AccountingError, match="neighboring_relation must be"):
        ledger.epsilon(DELTA)
    terms = {"neighboring_relation": "replace_one"}
    assert ledger.epsilon(DELTA, "all", **terms) == ledger.epsilon(DELTA, **terms)
    with pytest.raises(AccountingError, match="accountant must be 'exact'"):
        ledger.epsilon(DELTA, "rdp", **terms)
    with pytest.raises(AccountingError, match="entries must be steps"):
        ledger.rdp_curve()
    with pytest.raises(AccountingError, match="mechanism must be LaplaceMechanism"):
        ledger.add("laplace")


@pytest.mark.long("long statistics")
def test_further_steps_spend_the_rest_of_the_budget():
    ledger = Odometer()
    ledger.add(LaplaceMechanism(2.0))
    ledger.add(EpsilonDelta(0.1))
    budget = {"target_epsilon": 1.5, "delta": DELTA}
    run = {"sample_rate": 0.02, "noise_multiplier": 2.0, "steps": 100}

    def spent(**change):
        both = Odometer(ledger.entries)
        both.add_dp_sgd(**run | change)
        return both.epsilon(DELTA)

    def found(name):
        rest = {key: x for key, x in run.items() if key != name}
        return getattr(ledger, name)(**rest, **budget)

    noise, rate, steps = (
        found(x) for x in ("noise_multiplier", "sample_rate", "steps")
    )
    assert spent(noise_multiplier=noise) <= 1.5 < spent(noise_multiplier=noise * 0.998)
    assert spent(sample_rate=rate) <= 1.5 < spent(sample_rate=rate * 1.002)
    assert spent(steps=steps) <= 1.5 < spent(steps=steps + 1)
    check_spent_budget(ledger)


def check_spent_budget(ledger):
    with pytest.raises(AccountingError, match="target_epsilon must be at least"):
        ledger.noise_multiplier(
            sample_rate=0.1, steps=5, target_epsilon=0.5, delta=DELTA
        )
    assert (
        ledger.steps(
            sample_rate=0.1, noise_multiplier=1.0, target_epsilon=0.5, delta=DELTA
        )
        == 0
    )


def test_a_budget_that_other_mechanisms_exceed_leaves_no_steps():
    ledger = Odometer()
    ledger.add(LaplaceMechanism(1.0))
    check_spent_budget(ledger)


def test_more_noise_never_spends_more():
    spent = []
    for scale in (1.0, 1.5, 9.0):
        ledger = Odometer()
        ledger.add_gaussian(3.0)
        ledger.add(LaplaceMechanism(scale), count=2)
        spent.append(ledger.epsilon_interval(DELTA))
    for more, less in pairwise(spent):
        assert less.lower <= more.upper
        assert less.upper < more.upper


@pytest.mark.long("long statistics")
def test_random_allocation_next_to_laplace_noise():
    ledger = Odometer()
    ledger.add_random_allocation(100, 1.1, 1000)
    alone = ledger.epsilon_interval(DELTA)
    ledger.add(LaplaceMechanism(2.0))
    spent = ledger.epsilon_interval(DELTA)
    assert alone.upper < spent.lower < spent.upper < alone.upper + 0.5
    assert spent.upper - spent.lower < 5e-3 * spent.upper
    poisson = Odometer()
    poisson.add_dp_sgd(0.01, 1.1, 1000)
    poisson.add(LaplaceMechanism(2.0))
    assert spent.upper < poisson.epsilon(DELTA)


@pytest.mark.parametrize(
    ("scale", "sensitivity", "count"), [(3.0, 1, 100), (1.0, 1, 20), (5.0, 2, 40)]
)
def test_repeated_discrete_noise_costs_the_sum_of_its_losses(scale, sensitivity, count):
    """100 queries had a bound of 194, ten times the truth: they were only added up."""
    delta, reach = 1e-5, math.ceil(20 * scale)
    one = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * scale**2))
    together = reduce(np.convolve, [one / one.sum()] * count)
    sums = np.arange(-reach * count, reach * count + 1)
    losses = (2 * sums + count * sensitivity) * sensitivity / (2 * scale**2)
    ledger = Odometer()
    ledger.add(DiscreteGaussianMechanism(scale, sensitivity), count=count)
    spent = ledger.epsilon_interval(delta)
    at_lower, at_upper = (
        together @ np.maximum(-np.expm1(np.minimum(epsilon - losses, 0)), 0)
        for epsilon in (spent.lower, spent.upper)
    )
    assert at_upper <= delta <= at_lower
    assert spent.upper - spent.lower < 0.02 * spent.upper

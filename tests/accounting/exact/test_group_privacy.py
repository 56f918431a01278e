"""Several records of a person: against other implementations, and closed forms."""

import math

import mpmath as mp
import numpy as np
import pytest
from dp_accounting import dp_event as events
from dp_accounting.pld import PLDAccountant
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsgd_explorer.accounting import (
    Phase,
    delta_interval,
    epsilon_interval,
    gaussian_delta,
    gaussian_epsilon,
    group_delta_interval,
    group_epsilon,
    group_epsilon_interval,
)
from dpsgd_explorer.accounting.exact.group_gaussian import GroupLoss, log_binomial
from dpsgd_explorer.accounting.exact.privacy_loss import ContourGrid
from dpsgd_explorer.accounting.exact.subsampled_gaussian import SubsampledGaussianLoss
from dpsgd_explorer.errors import AccountingError
from tests.in_order import in_order

DIRECTIONS = ["remove", "add"]
#: (q, σ, T, δ, k)
RUNS = [
    (0.01, 1.1, 1000, 1e-5, 2),
    (0.01, 1.1, 1000, 1e-5, 5),
    (4096 / 60_000, 4.5, 300, 1e-5, 5),
    (4096 / 60_000, 4.5, 300, 1e-5, 10),
    (0.001, 0.7, 2000, 1e-6, 20),
    (0.25, 8.0, 60, 1e-6, 3),
    (0.5, 20.0, 20, 1e-5, 40),
]
#: ε of dp-accounting 0.6 for the first of these runs, an upper bound by a grid of 1e-3.
THEIRS = {
    (0.01, 1.1, 1000, 1e-5, 2): 3.29468683,
    (4096 / 60_000, 4.5, 300, 1e-5, 5): 6.27491743,
    (0.25, 8.0, 60, 1e-6, 3): 3.51698457,
}
SMALL = [(0.2, 1.3, 3), (0.01, 0.8, 5), (0.6, 4.0, 12), (0.9, 0.5, 2)]  # (q, σ, k)


def probabilities(q, k):
    q = mp.mpf(q)
    return [mp.binomial(k, j) * q**j * (1 - q) ** (k - j) for j in range(k + 1)]


def normal_tail(z):
    return mp.erfc(z / mp.sqrt(2)) / 2


def loss_at(v, q, sigma, k):
    """Return y(v) from the densities themselves."""
    terms = enumerate(probabilities(q, k))
    ratio = mp.fsum(
        p * mp.exp(j * v / sigma - mp.mpf(j) ** 2 / (2 * sigma**2)) for j, p in terms
    )
    return mp.log(ratio)


def true_delta(epsilon, q, sigma, k, direction):
    """Return δ of one step by the tails of all Gaussians, in 40 digits."""
    sigma, epsilon = mp.mpf(sigma), mp.mpf(epsilon)
    sign = 1 if direction == "remove" else -1
    low, high = mp.mpf(-400), mp.mpf(400)
    for _ in range(160):  # y rises with v
        middle = (low + high) / 2
        if loss_at(middle, q, sigma, k) < sign * epsilon:
            low = middle
        else:
            high = middle
    terms = list(enumerate(probabilities(q, k)))
    with_group = mp.fsum(p * normal_tail(sign * (high - j / sigma)) for j, p in terms)
    without = normal_tail(sign * high)
    if direction == "remove":
        return with_group - mp.exp(epsilon) * without
    return without - mp.exp(epsilon) * with_group


@pytest.fixture(autouse=True)
def forty_digits():
    with mp.workdps(40):
        yield


@pytest.mark.parametrize(("q", "sigma", "k"), SMALL)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_one_step_has_the_curve_of_the_densities(q, sigma, k, direction):
    epsilons = np.array([-0.3, 0.0, 0.05, 0.4, 1.5, 4.0])
    values = GroupLoss(q, sigma, direction, k).deltas(epsilons)
    for epsilon, value in zip(epsilons, values, strict=True):
        edge = k * math.log1p(-q)
        if direction == "remove" and epsilon <= edge:
            assert value == pytest.approx(-math.expm1(epsilon), rel=1e-14)
        elif direction == "add" and epsilon >= -edge:
            assert value == 0
        else:
            true = float(true_delta(epsilon, q, sigma, k, direction))
            assert value == pytest.approx(true, rel=1e-12, abs=1e-300)


@pytest.mark.parametrize(("q", "sigma", "k"), SMALL)
def test_one_step_costs_the_least_epsilon_with_this_delta(q, sigma, k):
    """The true δ at the reported ε is at most δ, and larger a little below it."""
    delta = 1e-5
    spent = in_order(group_epsilon, q, sigma, 1, delta, k)
    both = [true_delta(spent, q, sigma, k, direction) for direction in DIRECTIONS]
    assert max(both) <= delta
    below = spent * (1 - 1e-8)
    assert max(true_delta(below, q, sigma, k, x) for x in DIRECTIONS) > delta


@pytest.mark.parametrize(("q", "sigma", "k"), SMALL)
def test_two_steps_cost_no_less_than_the_integral_over_the_first(q, sigma, k):
    """δ of two steps is the mean of one step's δ(ε - ℓ) over the first step's ℓ."""
    delta = 1e-4
    spent = group_epsilon_interval([Phase(q, sigma, 2)], delta, k)
    assert spent.status == "exact"
    assert true_delta_of_two(spent.value, q, sigma, k) <= delta
    assert true_delta_of_two(spent.lower * (1 - 1e-9), q, sigma, k) >= delta


def true_delta_of_two(epsilon, q, sigma, k):
    """Return δ of two steps in the direction "remove", by a fine trapezoid sum."""
    v = np.arange(-14.0, 14.0 + k / sigma, 0.01 * min(sigma, 1.0))
    numbers = np.arange(k + 1.0)
    logs = np.array([float(mp.log(p)) for p in probabilities(q, k)])
    terms = logs + numbers * v[:, None] / sigma - numbers**2 / (2 * sigma**2)
    top = terms.max(axis=1)
    y = top + np.log(np.exp(terms - top[:, None]).sum(axis=1))
    density = np.exp(y - v * v / 2) / math.sqrt(2 * math.pi)
    deltas = GroupLoss(q, sigma, "remove", k).deltas(epsilon - y)  # tested above
    return float(density @ deltas) * float(v[1] - v[0])


@pytest.mark.parametrize("run", THEIRS)
def test_the_answer_is_just_below_dp_accounting_s_bound(run):
    q, sigma, steps, delta, k = run
    spent = group_epsilon_interval([Phase(q, sigma, steps)], delta, k)
    assert spent.status == "exact"
    assert spent.value <= THEIRS[run] <= spent.lower * (1 + 3e-4)


@pytest.mark.long("long statistics")
@pytest.mark.parametrize("run", RUNS)
def test_the_answer_is_dp_accounting_s_for_its_mixture_of_gaussians(run):
    q, sigma, steps, delta, k = run
    weights = [float(p) for p in probabilities(q, k)]
    event = events.MixtureOfGaussiansDpEvent(sigma, [*range(k + 1)], weights)
    other = PLDAccountant(value_discretization_interval=1e-3)
    other.compose(event, steps)
    spent = group_epsilon_interval([Phase(q, sigma, steps)], delta, k)
    assert spent.status == "exact"
    assert spent.lower <= spent.value == spent.upper
    theirs = other.get_epsilon(delta)
    assert spent.lower <= theirs * (1 + 1e-6)
    assert spent.value == pytest.approx(theirs, rel=5e-3)
    assert float(group_delta_interval([Phase(q, sigma, steps)], spent.value, k)) == (
        pytest.approx(delta, rel=2e-3)
    )


@pytest.mark.parametrize("run", [run[:4] for run in RUNS])
def test_one_record_costs_the_epsilon_of_the_run_to_the_last_digit(run):
    q, sigma, steps, delta = run
    phases = [Phase(q, sigma, steps)]
    assert group_epsilon_interval(phases, delta, 1) == epsilon_interval(phases, delta)
    assert group_delta_interval(phases, 0.5, 1) == delta_interval(phases, 0.5)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(("q", "sigma"), [(0.01, 1.1), (0.3, 0.4), (0.7, 6.0)])
def test_the_loss_of_a_group_of_one_is_that_of_one_record(q, sigma, direction):
    """The formulas for k records against those for one, which are others."""
    one = SubsampledGaussianLoss(q, sigma, direction)
    group = GroupLoss(q, sigma, direction, records=1)
    tilts = np.geomspace(0.2, 20.0, 9)
    np.testing.assert_allclose(
        group.cumulants(tilts), one.cumulants(tilts), 1e-9, 1e-13
    )
    epsilons = np.linspace(-0.5, 3.0, 15)
    np.testing.assert_allclose(group.deltas(epsilons), one.deltas(epsilons), 1e-10)
    grid = ContourGrid(2.0, 0.05, 40, 1e-9, 1 << 20)
    mine, known = group.transform(grid), one.transform(grid)
    np.testing.assert_allclose(mine.log_ratios, known.log_ratios, 1e-7, 1e-10)
    np.testing.assert_allclose(group.loss_range(1e-6), one.loss_range(1e-6), 1e-9)
    for frequency in (1.0, 10.0, 100.0):
        assert group.log_decay_bound(2.0)(frequency) >= (
            one.log_decay_bound(2.0)(frequency) - 1e-9
        )


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(("q", "sigma", "k"), SMALL)
def test_the_transform_is_that_of_the_densities(q, sigma, k, direction):
    loss = GroupLoss(q, sigma, direction, k)
    tilt, spacing = 1.5, 0.4
    found = loss.transform(ContourGrid(tilt, spacing, 30, 1e-10, 1 << 22))
    v = np.arange(-40.0, 40.0 + 3 * k / sigma, 0.002 * min(sigma, 1.0))
    y = loss._mixture(v)[0]
    weight, sign = (y, 1) if direction == "remove" else (0.0, -1)
    logs = weight + sign * tilt * y - v * v / 2
    shares = np.exp(logs - logs.max())
    total = shares.sum()
    bound = loss.log_decay_bound(tilt)
    for i in (1, 7, 29):
        u = spacing * i
        true = (shares @ np.exp(1j * u * sign * y)) / total
        ratio = np.exp(found.log_ratios[i] + 1j * u * found.mean)
        assert abs(ratio - true) <= found.errors[i] + 1e-12
        assert math.log(abs(true) + 1e-14) <= bound(u) + 1e-9 or bound(u) < -30


@pytest.mark.parametrize("k", [2, 7, 1000])
def test_records_that_join_every_step_are_one_gaussian(k):
    exact = gaussian_epsilon(delta=1e-6, noise_multiplier=30.0 / k, steps=40)
    assert in_order(group_epsilon, 1.0, 30.0, 40, 1e-6, k) == pytest.approx(
        exact, rel=1e-12
    )
    delta = gaussian_delta(epsilon=2.0, noise_multiplier=30.0 / k, steps=40)
    found = group_delta_interval([Phase(1.0, 30.0, 40)], 2.0, k)
    assert float(found) == pytest.approx(delta, rel=1e-12)


def test_more_records_cost_more_than_their_number_and_less_than_the_chain():
    """The chain: δ_k(kε) <= δ(ε) (1 + e^ε + ... + e^((k - 1) ε))."""
    q, sigma, steps, delta = 4096 / 60_000, 4.5, 300, 1e-5
    spent = [in_order(group_epsilon, q, sigma, steps, delta, k) for k in range(1, 9)]
    for k, value in enumerate(spent, 1):
        assert k == 1 or value > spent[k - 2] * k / (k - 1)
        chained = sum(math.exp(i * value / k) for i in range(k))
        one = float(delta_interval([Phase(q, sigma, steps)], value / k))
        assert one * chained >= delta * (1 - 1e-6)


@settings(max_examples=10, deadline=None)
@given(
    q=st.floats(1e-4, 0.9),
    sigma=st.floats(0.4, 30.0),
    steps=st.integers(1, 3000),
    k=st.integers(2, 25),
)
def test_bounds_enclose_and_rise_with_the_records(q, sigma, steps, k):
    phases = [Phase(q, sigma, steps)]
    fewer, more = (group_epsilon_interval(phases, 1e-5, n) for n in (k - 1, k))
    for spent in (fewer, more):
        assert 0 <= spent.lower <= spent.value == spent.upper
    assert fewer.lower <= more.upper * (1 + 1e-9)
    mu = k * math.sqrt(steps) / sigma
    unsampled = gaussian_epsilon(delta=1e-5, noise_multiplier=1 / mu)
    assert more.upper <= unsampled * (1 + 1e-9)


@pytest.mark.parametrize(
    "phases",
    [
        [Phase(0.01, 0.05, 100)],  # too little noise for the integrals
        [Phase(1e-11, 1.0, 1000)],  # too small a rate
        [Phase(0.001, 1.0, 100)],  # too many records for the noise
    ],
)
def test_other_bounds_hold_out_of_reach_of_the_integrals(phases):
    spent = group_epsilon_interval(phases, 1e-5, 300)
    assert epsilon_interval(phases, 1e-5).value <= spent.upper < math.inf
    [run] = phases
    assert spent.upper <= gaussian_epsilon(
        delta=1e-5, noise_multiplier=run.noise_multiplier / 300, steps=run.steps
    ) * (1 + 1e-9)


def test_phases_of_several_kinds_add_up():
    """A query of all records and steps of two kinds, against single kinds of them."""
    phases = [Phase(0.02, 1.5, 300), Phase(1.0, 20.0, 1), Phase(0.05, 2.0, 100)]
    spent = group_epsilon_interval(phases, 1e-6, 4)
    assert spent.status == "exact"
    alone = [group_epsilon_interval([phase], 1e-6, 4) for phase in phases]
    assert max(x.value for x in alone) < spent.value < sum(x.value for x in alone)
    shuffled = group_epsilon_interval([phases[2], *phases[:2]], 1e-6, 4)
    assert shuffled.value == pytest.approx(spent.value, rel=1e-6)


def test_without_noise_and_without_steps():
    assert in_order(group_epsilon, 0.1, 0.0, 5, 1e-5, 3) == math.inf
    assert in_order(group_epsilon, 0.1, 1.0, 0, 1e-5, 3) == 0
    assert in_order(group_epsilon, 1e-4, 50.0, 2, 1e-2, 3) == 0
    assert float(group_delta_interval([Phase(0.1, 0.0, 5)], 1.0, 3)) == 1
    assert float(group_delta_interval([], 1.0, 3)) == 0


@pytest.mark.parametrize("records", [0, -1, 1.5, 1001, None, "3", True])
def test_the_number_of_records_is_checked(records):
    with pytest.raises(AccountingError, match="records must be") as caught:
        in_order(group_epsilon, 0.1, 1.0, 5, 1e-5, records)
    assert caught.value.field == "records"


@pytest.mark.parametrize(("trials", "rate"), [(1, 0.3), (40, 1e-7), (900, 0.99)])
def test_binomial_probabilities_are_right_to_the_last_digits(trials, rate):
    with mp.workdps(60):
        true = [float(mp.log(p)) for p in probabilities(rate, trials)]
    np.testing.assert_allclose(log_binomial(trials, rate), true, 4e-16, 4e-16)

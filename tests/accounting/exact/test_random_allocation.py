"""Random allocation against integrals, closed forms and draws made for these tests."""

import math
import random
from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize
from scipy.stats import norm

from dpsgd_explorer.accounting import (
    epsilon_interval,
    gaussian_epsilon,
    random_allocation_delta,
    random_allocation_epochs,
    random_allocation_epsilon,
    random_allocation_interval,
    random_allocation_noise_multiplier,
)
from dpsgd_explorer.accounting.core.phase import Phase
from dpsgd_explorer.accounting.exact.random_allocation import (
    Epoch,
    SlotSums,
    larger_masses,
    smaller_masses,
)
from dpsgd_explorer.errors import AccountingError

#: σ, t, E, δ and the upper bounds of a prototype (upper side only), from 2026.
KNOWN = [
    (1.1, 234, 1, 1e-5, 0.27168),
    (2.0, 12, 30, 1e-5, 3.58510),
    (1.1, 234, 60, 1e-5, 2.34060),
    (0.7, 118, 10, 1e-5, 3.93346),
    (0.8, 100, 1, 1e-6, 1.87478),
]


def call(strikes, sigma):
    """Return E[(W - strike)_+] by the formula of Black and Scholes."""
    positive = np.maximum(strikes, 1e-300)
    upper = -sigma * np.log(positive) + 1 / (2 * sigma)
    prices = norm.cdf(upper) - positive * norm.cdf(upper - 1 / sigma)
    return np.where(strikes > 0, prices, 1 - strikes)


def mean_call(strike, sigma, slots):
    """Return E[(S - strike)_+] for the mean S of 2 or 3 lognormals.

    The last lognormal has a formula; a trapezoidal sum over the noise of the others is
    exact to all digits, as the integrand is smooth and falls as a Gaussian density.
    """
    noise = np.linspace(-10, 10 + 1 / sigma, {2: 4001, 3: 401}[slots])
    weights = norm.pdf(noise) * (noise[1] - noise[0])
    lognormals = np.exp(noise / sigma - 1 / (2 * sigma**2))
    if slots == 2:
        return weights @ call(slots * strike - lognormals, sigma) / slots
    both = slots * strike - lognormals[:, None] - lognormals
    return weights @ call(both, sigma) @ weights / slots


def true_epsilon(sigma, slots, delta):
    """Return ε of one epoch in both directions, from calls and puts of the mean."""

    def remove(epsilon):
        return mean_call(math.exp(epsilon), sigma, slots) - delta

    def add(epsilon):
        strike = math.exp(-epsilon)
        put = mean_call(strike, sigma, slots) - 1 + strike
        return put / strike - delta

    found = [
        optimize.brentq(excess, 0, 12, xtol=1e-9) if excess(0) > 0 else 0.0
        for excess in (remove, add)
    ]
    return max(found)


def spent(sigma, slots, steps, delta):
    return random_allocation_interval(
        noise_multiplier=sigma, slots=slots, steps=steps, delta=delta
    )


@pytest.mark.parametrize(("sigma", "slots", "epochs", "delta", "known"), KNOWN)
def test_the_bounds_enclose_known_values(sigma, slots, epochs, delta, known):
    found = spent(sigma, slots, slots * epochs, delta)
    assert found.lower <= known
    assert float(found) == pytest.approx(known, rel=3e-4)
    assert float(found) - found.lower <= 1e-3 * float(found)


@pytest.mark.parametrize("seed", range(12))
def test_two_slots_agree_with_an_integral(seed):
    draw = random.Random(seed)
    sigma, delta = draw.uniform(0.7, 6.0), 10 ** draw.uniform(-8, -2)
    found = spent(sigma, 2, 2, delta)
    truth = true_epsilon(sigma, 2, delta)
    assert found.lower <= truth + 1e-7
    assert truth - 1e-7 <= float(found)
    assert float(found) - found.lower <= max(1e-3 * truth, 1e-6)


def test_three_slots_agree_with_a_double_integral():
    found = spent(1.2, 3, 3, 1e-4)
    truth = true_epsilon(1.2, 3, 1e-4)
    assert found.lower - 1e-6 <= truth <= float(found) + 1e-6


@pytest.mark.parametrize(("sigma", "slots"), [(0.9, 10), (2.0, 50), (5.0, 3)])
def test_the_first_slot_is_one_poisson_step(sigma, slots):
    found = spent(sigma, slots, 1, 1e-5)
    [poisson] = [epsilon_interval([Phase(1 / slots, sigma, 1)], 1e-5)]
    assert found.lower - 1e-7 <= float(poisson)
    assert poisson.lower <= float(found) + 1e-7
    assert float(found) == pytest.approx(float(poisson), rel=1e-3)


def test_one_slot_is_the_gaussian_mechanism():
    found = spent(2.0, 1, 7, 1e-5)
    assert float(found) == gaussian_epsilon(delta=1e-5, noise_multiplier=2.0, steps=7)


def test_two_epochs_agree_with_draws():
    """δ at the returned ε, from a million pairs of epochs with the record."""
    sigma, slots, delta = 1.0, 4, 0.02
    found = spent(sigma, slots, 2 * slots, delta)
    rng = np.random.default_rng(7)
    noise = rng.normal(size=(1_000_000, 2, slots))
    noise[:, :, 0] += 1 / sigma  # by symmetry the record is in the first slot
    ratio = np.exp(noise / sigma - 1 / (2 * sigma**2)).mean(axis=2).prod(axis=1)
    for epsilon, sign in ((float(found), 1), (found.lower, -1)):
        gains = np.maximum(1 - math.exp(epsilon) / ratio, 0.0)
        error = 4 * gains.std() / math.sqrt(len(gains))
        assert sign * (delta - gains.mean()) > -error
        assert abs(delta - gains.mean()) < error + 1e-4


def test_epsilon_falls_with_noise_and_slots_and_grows_with_steps():
    base = float(spent(1.5, 20, 40, 1e-5))
    assert float(spent(1.6, 20, 40, 1e-5)) < base
    assert float(spent(1.5, 30, 60, 1e-5)) < base
    within = [float(spent(1.5, 20, steps, 1e-5)) for steps in (0, 1, 20, 30)]
    assert within == sorted(within)
    assert within[0] == 0.0
    assert within[-1] < base


def test_it_costs_less_than_poisson_sampling_and_than_known_slots():
    ours = random_allocation_epsilon(
        noise_multiplier=1.1, slots=234, epochs=1, delta=1e-5
    )
    poisson = epsilon_interval([Phase(1 / 234, 1.1, 234)], 1e-5)
    assert ours < poisson.lower < gaussian_epsilon(delta=1e-5, noise_multiplier=1.1)


@pytest.mark.parametrize("sigma", [0.7, 1.5, 8.0])
def test_the_masses_are_larger_and_smaller_in_convex_order(sigma):
    """E[(W - w)_+] at points between those of the grid, for both and for W."""
    epoch = Epoch(sigma, 10, 10)
    grid = epoch.grid(0.2, 1e-12)
    points = grid.spacing * np.arange(grid.count + 1)
    strikes = np.quantile(points, np.linspace(0, 0.02, 40)) + 0.37 * grid.spacing
    larger, excess = larger_masses(epoch, grid)
    smaller = smaller_masses(epoch, grid)
    for masses, sign, added in ((larger, 1, excess), (smaller, -1, 0.0)):
        assert masses.sum() == pytest.approx(1, abs=1e-12)
        assert masses @ points == pytest.approx(1, abs=1e-9)
        prices = np.maximum(points - strikes[:, None], 0.0) @ masses + added
        true = np.array([call(strike, sigma) for strike in strikes])
        assert (sign * (prices - true) > -1e-14).all()
        assert np.abs(prices - true).max() < 0.02


def test_sums_beyond_the_period_are_bounded():
    """A period that is too short raises the upper curve and lowers the lower one."""
    epoch = Epoch(1.5, 20, 20)
    enough = epoch.grid(0.2, 1e-9)
    short = replace(enough, low=0, period=enough.count + 40)
    at = np.array([0.3])
    for direction in ("remove", "add"):
        low, high = (
            float(SlotSums(epoch, enough, sign).curves()[direction].deltas(at)[0])
            for sign in (-1, 1)
        )
        outer = [
            float(SlotSums(epoch, short, sign).curves()[direction].deltas(at)[0])
            for sign in (-1, 1)
        ]
        assert outer[0] <= low <= high <= outer[1]


def test_long_doubles_narrow_the_error():
    curves = [
        SlotSums(
            Epoch(5.0, 1000, 1000), Epoch(5.0, 1000, 1000).grid(0.4, 1e-15), 1
        ).curves(long_double=long_double)["remove"]
        for long_double in (False, True)
    ]
    at = np.array([0.0, 0.01, 0.03])
    plain, long = (curve.deltas(at) for curve in curves)
    assert (np.abs(plain - long) <= curves[0].error + curves[1].error).all()
    assert curves[1].error <= curves[0].error


@pytest.mark.parametrize("sigma", [0.2, 0.05, 0.01])
def test_without_a_fine_enough_grid_known_slots_bound_epsilon(sigma):
    found = spent(sigma, 1000, 1000, 1e-5)
    assert found.status == "bound"
    assert float(found) == gaussian_epsilon(delta=1e-5, noise_multiplier=sigma)


def test_much_noise_is_bounded_too():
    found = spent(300.0, 50, 500, 1e-8)
    assert found.lower <= float(found) < 1e-2


def test_no_noise_and_no_steps():
    assert float(spent(0.0, 5, 5, 1e-5)) == math.inf
    assert float(spent(1.0, 5, 0, 1e-5)) == 0.0


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"slots": 0}, "slots"),
        ({"slots": 2.5}, "slots"),
        ({"epochs": -1}, "epochs"),
        ({"delta": 1.0}, "delta"),
        ({"noise_multiplier": -1.0}, "noise_multiplier"),
        ({"noise_multiplier": math.nan}, "noise_multiplier"),
    ],
)
def test_an_argument_outside_its_domain_is_named(wrong, name):
    right = {"noise_multiplier": 1.0, "slots": 4, "epochs": 1, "delta": 1e-5}
    with pytest.raises(AccountingError, match=name):
        random_allocation_epsilon(**right | wrong)


def test_delta_of_two_slots_agrees_with_an_integral():
    run = {"noise_multiplier": 1.3, "slots": 2, "epochs": 1}
    at = random_allocation_delta(**run, epsilon=0.7)
    removed = mean_call(math.exp(0.7), 1.3, 2)
    assert removed <= at <= removed * (1 + 2e-4)


def test_calibrated_noise_and_epochs_meet_the_target():
    run = {"slots": 8, "delta": 1e-5}
    noise = random_allocation_noise_multiplier(target_epsilon=1.5, epochs=1, **run)
    spent_so = random_allocation_epsilon(noise_multiplier=noise, epochs=1, **run)
    assert 1.4995 < spent_so <= 1.5
    count = random_allocation_epochs(target_epsilon=1.5, noise_multiplier=3.0, **run)
    assert [
        random_allocation_epsilon(noise_multiplier=3.0, epochs=epochs, **run) <= 1.5
        for epochs in (count, count + 1)
    ] == [True, False]
    assert random_allocation_epochs(target_epsilon=1.0, noise_multiplier=0, **run) == 0


@pytest.mark.parametrize(("slots", "epochs"), [(300, 1), (1000, 5)])
def test_the_whole_target_is_spent_where_the_noise_is_small(slots, epochs):
    """Below σ = 0.6 the grid of the lognormal has a million points."""
    terms = {"slots": slots, "epochs": epochs, "delta": 1e-5}
    noise = random_allocation_noise_multiplier(target_epsilon=3.0, **terms)
    assert noise < 0.6
    spent = random_allocation_epsilon(noise_multiplier=noise, **terms)
    assert 2.9997 < spent <= 3.0


def test_fixed_slots_cost_what_draws_of_the_sufficient_statistic_say():
    """δ with one slot for all epochs, from draws of every step of two epochs."""
    sigma, slots, delta = 1.5, 4, 0.02
    epsilon = random_allocation_epsilon(
        noise_multiplier=sigma, slots=slots, epochs=2, delta=delta, fixed_slots=True
    )
    rng = np.random.default_rng(11)
    noise = rng.normal(size=(400_000, 2, slots))
    noise[:, :, 0] += 1 / sigma
    ratio = np.exp((noise / sigma - 1 / (2 * sigma**2)).sum(axis=1)).mean(axis=1)
    gains = np.maximum(1 - math.exp(epsilon) / ratio, 0.0)
    assert delta - gains.mean() > -4 * gains.std() / math.sqrt(len(gains))
    assert gains.mean() == pytest.approx(delta, rel=0.05)


@pytest.mark.parametrize("seed", range(6))
def test_no_epsilon_is_below_the_one_of_draws(seed):
    """δ at the returned ε, for drawn settings, within epochs too."""
    draw = random.Random(100 + seed)
    sigma, slots = draw.uniform(0.7, 3.0), draw.randint(2, 12)
    steps = draw.randint(1, 3 * slots)
    delta = 10 ** draw.uniform(-2.5, -1)
    epsilon = float(spent(sigma, slots, steps, delta))
    rng = np.random.default_rng(seed)
    count, ratio = 200_000, 1.0
    for start in range(0, steps, slots):
        done = min(slots, steps - start)
        noise = rng.normal(size=(count, done))
        used = rng.integers(slots, size=count)
        inside = np.flatnonzero(used < done)
        noise[inside, used[inside]] += 1 / sigma
        ratios = np.exp(noise / sigma - 1 / (2 * sigma**2)).sum(axis=1)
        ratio = ratio * (slots - done + ratios) / slots
    gains = np.maximum(1 - math.exp(epsilon) / ratio, 0.0)
    assert gains.mean() - 4 * gains.std() / math.sqrt(count) <= delta


@pytest.mark.parametrize("seed", range(3))
def test_three_slots_of_drawn_settings_agree_with_a_double_integral(seed):
    draw = random.Random(50 + seed)
    sigma, delta = draw.uniform(0.9, 4.0), 10 ** draw.uniform(-6, -2)
    found = spent(sigma, 3, 3, delta)
    truth = true_epsilon(sigma, 3, delta)
    assert found.lower - 1e-6 <= truth <= float(found) + 1e-6


@pytest.mark.parametrize("fixed", ["no", 0, None, float("nan")])
def test_fixed_slots_are_chosen_by_a_boolean(fixed):
    run = {"noise_multiplier": 2.0, "slots": 4, "epochs": 2, "delta": 1e-5}
    with pytest.raises(AccountingError, match="fixed_slots must be True or False"):
        random_allocation_epsilon(**run, fixed_slots=fixed)

"""Learning rates: what one record can change of a released one, and what it uses."""

from types import SimpleNamespace

import numpy as np
import pytest

from dpsgd_explorer.accounting import gaussian_epsilon
from dpsgd_explorer.regression import noisy_gradient_descent
from dpsgd_explorer.regression.bounds import Bounds
from dpsgd_explorer.regression.noisy_gd import Descent
from dpsgd_explorer.regression.rates import (
    UPPER_DEVIATIONS,
    notebook_rate,
    released_rates,
    resolve_rate,
)
from dpsgd_explorer.regression.spending import RELEASE_SHARE, rate_noise
from dpsgd_explorer.regression.statistics import Statistics

DELTA = 1e-6
BOUNDS = Bounds(1.0, 5.0)
SCHEDULE = (50.0, 502)
FEW = np.array([[0.6, 0.8], [1.0, 0.0], [0.3, -0.2]]), np.array([1.0, -2.0, 0.5])


def fixed(*draws):
    """Return a generator of these normal numbers, as many as are asked for."""
    return SimpleNamespace(standard_normal=lambda shape: np.resize(draws, shape))


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("relation", ["add_or_remove_one", "replace_one"])
def test_one_record_moves_the_largest_eigenvalue_by_at_most_its_bound(seed, relation):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(6, 3))
    rows *= 2.0 / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 2.0)
    bounds = Bounds(2.0, 1.0, relation)
    other = (
        rows[1:]
        if relation == "add_or_remove_one"
        else np.vstack([rows[1:], rows[:1] * -0.1])
    )
    before, after = (
        Statistics.of(x, np.zeros(len(x))).lambda_max for x in (rows, other)
    )
    assert abs(before - after) <= bounds.lambda_max_sensitivity * (1 + 1e-12)


def test_the_bound_of_the_largest_eigenvalue_is_reached():
    row = np.array([[2.0, 0.0]])
    alone, twice = (
        Statistics.of(np.repeat(row, n, axis=0), np.zeros(n)).lambda_max for n in (1, 2)
    )
    assert twice - alone == Bounds(2.0, 1.0).lambda_max_sensitivity == 4.0


def test_a_released_rate_is_the_notebooks_at_a_noisy_upper_bound(statistics):
    std = rate_noise(*SCHEDULE)
    at = fixed(-UPPER_DEVIATIONS, 0.5)
    exact, noisy = released_rates(statistics, BOUNDS, SCHEDULE, at, 2)
    assert exact == pytest.approx(notebook_rate(statistics, BOUNDS, SCHEDULE))
    larger = SimpleNamespace(
        lambda_max=statistics.lambda_max + std * (UPPER_DEVIATIONS + 0.5),
        dim=statistics.dim,
    )
    assert noisy == pytest.approx(notebook_rate(larger, BOUNDS, SCHEDULE))
    assert noisy < exact


def test_noise_below_the_eigenvalue_leaves_a_positive_rate():
    few = Statistics.of(*FEW)
    [lowest] = released_rates(few, BOUNDS, SCHEDULE, fixed(-1e9), 1)
    of_one_row = SimpleNamespace(lambda_max=1.0, dim=2)
    assert lowest == notebook_rate(of_one_row, BOUNDS, SCHEDULE) > 0


@pytest.mark.parametrize(
    "given",
    [
        {"target_epsilon": 1.0, "steps": 40},
        {"target_epsilon": 1.0, "noise_multiplier": 40.0},
        {"noise_multiplier": 40.0, "steps": 40},
    ],
    ids=str,
)
def test_the_release_is_paid_for_from_the_budget_of_the_descent(prepared, given):
    path = noisy_gradient_descent(
        prepared.X,
        prepared.y,
        delta=DELTA,
        y_bound=5.0,
        learning_rate="released",
        rng=np.random.default_rng(0),
        **given,
    )
    steps, noise = path.steps[-1], path.noise_multiplier
    precision = steps / noise**2 + path.rate_noise_multiplier**-2
    whole = gaussian_epsilon(delta=DELTA, noise_multiplier=precision**-0.5)
    assert path.epsilon == pytest.approx(whole, rel=1e-9)
    assert path.epsilon > gaussian_epsilon(
        delta=DELTA, noise_multiplier=noise, steps=steps
    )
    assert path.epsilon <= given.get("target_epsilon", np.inf)
    assert path.rate_noise_multiplier**-2 == pytest.approx(RELEASE_SHARE * precision)
    assert path.rate_is_private
    assert isinstance(path.learning_rate, float)
    assert path.theta.shape == (8,)


def test_each_repetition_releases_its_own_rate_and_descends_with_it(statistics):
    descent = Descent(
        bounds=BOUNDS,
        noise_multiplier=2000.0,
        steps=30,
        learning_rate="released",
        delta=DELTA,
        rate_factor=0.5,
    )
    path = descent.run(statistics, np.random.default_rng(4), 3)
    rng = np.random.default_rng(4)
    rates = 0.5 * released_rates(statistics, BOUNDS, (2000.0, 30), rng, 3)
    np.testing.assert_array_equal(path.learning_rate, rates)
    assert len(set(rates)) == 3
    draws = rng.standard_normal((30, 3, 8))
    for run, rate in enumerate(rates):
        theta = np.zeros(8)
        for z in draws[:, run]:
            sensitivity = np.linalg.norm(theta) + 5
            gradient = statistics.xtx @ theta - statistics.xty
            theta = theta - rate * (gradient + sensitivity * 2000.0 * z)
        np.testing.assert_allclose(path.theta[run], theta, rtol=1e-9)


def test_no_public_size_is_needed(statistics):
    assert resolve_rate("released", statistics, BOUNDS, SCHEDULE, None) == "released"
    alone = noisy_gradient_descent(
        *FEW,
        target_epsilon=1.0,
        steps=3,
        delta=DELTA,
        y_bound=5.0,
        learning_rate="released",
        rng=np.random.default_rng(0),
    )
    assert np.isfinite(alone.theta).all()


def test_it_costs_little_and_ends_where_the_unpaid_rate_does(statistics):
    ends = {}
    for rate in ("notebook", "released"):
        eta = resolve_rate(rate, statistics, BOUNDS, SCHEDULE, None)
        descent = Descent(
            bounds=BOUNDS,
            noise_multiplier=50.0,
            steps=497,
            learning_rate=eta,
            delta=DELTA,
        )
        path = descent.run(statistics, np.random.default_rng(1), 200)
        ends[rate] = np.median(path.mse[-1])
    assert ends["released"] == pytest.approx(ends["notebook"], abs=0.01)

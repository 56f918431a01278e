import math
from types import SimpleNamespace

import numpy as np
import pytest

from dpsgd_explorer.accounting import gaussian_epsilon
from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.regression import noisy_gradient_descent
from dpsgd_explorer.regression.bounds import Bounds
from dpsgd_explorer.regression.noisy_gd import Descent, kept_steps
from dpsgd_explorer.regression.rates import notebook_rate, public_rate
from dpsgd_explorer.regression.spending import schedule, steps_within

DELTA = 1e-6
BOUNDS = Bounds(1, 5)
HOUSING = {"delta": DELTA, "y_bound": 5.0}


def descend(prepared, **settings):
    return noisy_gradient_descent(prepared.X, prepared.y, **HOUSING | settings)


def descent_of(noise, steps, rate):
    return Descent(
        bounds=BOUNDS,
        noise_multiplier=noise,
        steps=steps,
        learning_rate=rate,
        delta=DELTA,
    )


def notebook_descent(statistics, rng, noise, steps, rate):
    """Repeat the notebook's loop, one descent and one step at a time."""
    theta = np.zeros(8)
    for _ in range(steps):
        sensitivity = np.linalg.norm(theta) + 5
        gradient = statistics.xtx @ theta - statistics.xty
        draw = rng.normal(size=theta.shape)
        theta = theta - rate * (gradient + sensitivity * noise * draw)
    return theta


def test_the_vectorised_loop_repeats_the_notebooks_draws(prepared, statistics):
    rng = np.random.RandomState(7)
    settings = {"noise_multiplier": 50.0, "steps": 300, "learning_rate": 2.5e-5}
    path = descend(prepared, rng=rng, **settings)
    rng = np.random.RandomState(7)
    expected = notebook_descent(statistics, rng, 50.0, 300, 2.5e-5)
    np.testing.assert_allclose(path.theta, expected, rtol=1e-9)
    assert path.mse[-1] == pytest.approx(statistics.mse_of(expected), rel=1e-9)


def test_each_repetition_has_the_sensitivity_of_its_own_theta(statistics):
    path = descent_of(20.0, 40, 4e-5).run(statistics, np.random.RandomState(3), 3)
    draws = np.random.RandomState(3).normal(size=(40, 3, 8))
    for run in range(3):
        own = iter(draws[:, run])
        rng = SimpleNamespace(normal=lambda size, own=own: next(own))
        expected = notebook_descent(statistics, rng, 20.0, 40, 4e-5)
        np.testing.assert_allclose(path.theta[run], expected, rtol=1e-9)


@pytest.mark.parametrize(("noise", "steps"), [(500.0, 50251), (50.0, 502)])
def test_the_steps_within_a_budget_are_the_golden_ones(golden, noise, steps):
    wanted = golden["noisygd"][f"niter_sigma{noise:.0f}"]
    assert steps_within(2.0, noise, DELTA) == steps == wanted["niter_exact"]
    assert gaussian_epsilon(delta=DELTA, noise_multiplier=noise, steps=steps) <= 2.0
    assert gaussian_epsilon(delta=DELTA, noise_multiplier=noise, steps=steps + 1) > 2.0


def test_the_notebooks_rates_are_the_golden_ones(golden, statistics):
    for key, noise, steps in (("large_noise", 500, 50251), ("small_noise", 50, 502)):
        rate = notebook_rate(statistics, BOUNDS, (noise, steps))
        assert rate == pytest.approx(golden["noisygd"][key]["lr"], rel=1e-12)


def test_the_public_rate_uses_nothing_of_the_data():
    noisy = public_rate(8, BOUNDS, (500.0, 50251), 20640)
    assert noisy == pytest.approx(5 / (500 * 6 * math.sqrt(8 * 50251)))
    assert public_rate(8, BOUNDS, (0.01, 1), 20640) == 1 / 20640


def test_small_noise_ends_where_the_golden_descents_do(golden, statistics):
    wanted = golden["noisygd"]["small_noise"]
    descent = descent_of(50.0, 502, wanted["lr"])
    path = descent.run(statistics, np.random.default_rng(0), 64, keep_every=10)
    final = np.median(path.mse[-1])
    assert final == pytest.approx(wanted["final_mse"]["median"], abs=0.0015)
    for point in wanted["path"][:-1]:
        at = path.steps.index(point["iter"])
        assert path.epsilons[at] == pytest.approx(point["eps_exact"], rel=1e-9)
        assert np.median(path.mse[at]) == pytest.approx(point["mse_median"], rel=0.02)


def test_large_noise_ends_where_the_golden_descents_do(golden, statistics):
    wanted = golden["noisygd"]["large_noise"]
    descent = descent_of(500.0, 50251, wanted["lr"])
    path = descent.run(statistics, np.random.default_rng(1), 64, keep_every=100)
    final = np.median(path.mse[-1])
    assert final == pytest.approx(wanted["final_mse"]["median"], abs=0.003)
    assert path.epsilon == pytest.approx(1.9999997852155313, rel=1e-9)
    assert path.diverged == 0


def test_two_of_three_say_what_is_spent():
    noise, steps = schedule(None, 100, 1.0, DELTA)
    spent = gaussian_epsilon(delta=DELTA, noise_multiplier=noise, steps=steps)
    assert steps == 100
    assert 1 - 1e-9 < spent <= 1.0
    assert schedule(20.0, 7, None, DELTA) == (20.0, 7)
    for given in ((20.0, 7, 1.0), (20.0, None, None), (None, None, None)):
        with pytest.raises(ConfigError, match="two of noise_multiplier, steps and"):
            schedule(*given, DELTA)


@pytest.mark.parametrize(("noise", "word"), [(0.1, "Raise"), (1e6, "Lower")])
def test_noise_without_a_sensible_number_of_steps_is_refused(noise, word):
    with pytest.raises(ConfigError, match=f"1 to 1,000,000 steps .*{word} it"):
        steps_within(1.0, noise, DELTA)


def test_a_public_rate_needs_a_public_size_unless_records_are_replaced(prepared):
    setting = {"noise_multiplier": 5.0, "steps": 3}
    few = SimpleNamespace(X=prepared.X[:50], y=prepared.y[:50])
    with pytest.raises(ConfigError, match="public_size must be given"):
        descend(few, **setting)
    stated = descend(few, public_size=50, **setting)
    replaced = descend(few, neighboring_relation="replace_one", **setting)
    assert stated.rate_is_private
    assert replaced.learning_rate < stated.learning_rate
    assert not descend(few, learning_rate="notebook", **setting).rate_is_private


def test_a_descent_that_diverges_is_counted_and_never_nan(prepared):
    settings = {"noise_multiplier": 5.0, "steps": 400, "learning_rate": 0.01}
    path = descend(prepared, repetitions=3, **settings)
    assert path.diverged == 3
    assert np.isinf(path.mse[-1]).all()
    assert not np.isnan(path.mse).any()


def test_without_repetitions_there_is_no_axis_for_them(prepared):
    settings = {"noise_multiplier": 50.0, "learning_rate": 1e-5}
    path = descend(prepared, target_epsilon=0.5, **settings)
    assert path.theta.shape == (8,)
    assert path.mse.shape == (len(path.steps),)
    assert list(path.epsilons) == sorted(path.epsilons)
    assert path.epsilon <= 0.5


@pytest.mark.parametrize("rate", [0, -1, float("nan"), "best"])
def test_a_rate_that_is_none_is_refused(rate):
    with pytest.raises(ConfigError, match="learning_rate must be"):
        noisy_gradient_descent(
            [[0.5]], [1.0], noise_multiplier=1.0, steps=1, learning_rate=rate, **HOUSING
        )


@pytest.mark.parametrize("steps", [1, 2, 99, 100, 101, 502, 50251])
def test_a_path_keeps_its_first_and_last_step_and_few_between(steps):
    kept = kept_steps(steps)
    assert (kept[0], kept[-1]) == (1, steps)
    assert len(kept) <= 102
    assert list(kept) == sorted(set(kept))
    spent = [
        gaussian_epsilon(delta=DELTA, noise_multiplier=500.0, steps=step)
        for step in kept
    ]
    jumps = np.diff([0.0, *spent])
    least = gaussian_epsilon(
        delta=DELTA, noise_multiplier=500.0, steps=1
    )  # of one step
    assert jumps.max() <= max(0.03 * spent[-1], 1.01 * least)

"""SSP and AdaSSP beside the notebook's own draws, and beside golden distributions."""

import math

import numpy as np
import pytest

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.regression import adassp, ssp
from dpsgd_explorer.regression.bounds import Bounds
from dpsgd_explorer.regression.perturbation import Perturbation

DELTA = 1e-6
EPSILONS = ["0.1", "0.5", "1.0", "2.0"]
NAMES = {"ssp": "SSP", "adassp": "AdaSSP"}
HOUSING = {"delta": DELTA, "y_bound": 5.0}
QUANTILES = ["0.05", "0.25", "0.5", "0.75", "0.95"]


class LegacyNormals(np.random.RandomState):
    """numpy's legacy generator, as the notebook used it, with the modern name."""


def errors(statistics, method, epsilon, rng, repetitions, variant):
    mechanism = Perturbation(method=method, bounds=Bounds(1, 5), variant=variant)
    budget = mechanism.budget(float(epsilon), DELTA)
    return statistics.mse_of(mechanism.release(statistics, budget, rng, repetitions))


@pytest.mark.parametrize("method", NAMES)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_notebook_repeats_the_legacy_draws(statistics, golden, epsilon, method):
    found = errors(statistics, method, epsilon, LegacyNormals(0), 200, "notebook")
    wanted = golden["ssp"][epsilon][NAMES[method]]["mse_200reps_legacy_seed0"]
    quantiles = np.quantile(found, [float(q) for q in QUANTILES])
    expected = [wanted["quantiles"][q] for q in QUANTILES]
    np.testing.assert_allclose(quantiles, expected, rtol=1e-9)


@pytest.mark.parametrize("method", NAMES)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_medians_lie_in_the_golden_interval(statistics, golden, epsilon, method):
    rng = np.random.default_rng(20)
    found = np.median(errors(statistics, method, epsilon, rng, 200, "notebook"))
    wanted = golden["ssp"][epsilon][NAMES[method]]
    low, high = wanted["median_of_200_reps_99.9pct_interval"]
    assert low <= found <= high


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_tight_adassp_has_the_lower_golden_median(statistics, golden, epsilon):
    rng = np.random.default_rng(5)
    found = errors(statistics, "adassp", epsilon, rng, 10_000, "tight")
    medians = golden["adassp_variants_median_mse_40k_reps"][epsilon]
    wanted = medians["no_lambda_min_and_half_offdiag"]
    assert np.median(found) == pytest.approx(wanted, abs=0.0025)
    assert np.median(found) < medians["notebook"] - 0.001


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_tight_ssp_has_the_golden_median(statistics, golden, epsilon):
    rng = np.random.default_rng(8)
    found = errors(statistics, "ssp", epsilon, rng, 10_000, "tight")
    wanted = golden["ssp"][epsilon]["SSP"]["mse_100k_if_offdiagonal_noise_over_sqrt2"]
    assert np.median(found) == pytest.approx(wanted["median"], rel=0.03)


@pytest.mark.parametrize(("variant", "beside"), [("tight", 0.5), ("notebook", 1.0)])
def test_the_noise_is_symmetric_with_the_stated_variance(statistics, variant, beside):
    mechanism = Perturbation(method="ssp", bounds=Bounds(1, 5), variant=variant)
    square = np.random.default_rng(0).standard_normal((4000, 5, 5))
    noise = mechanism._symmetric(square)
    np.testing.assert_array_equal(noise, noise.swapaxes(1, 2))
    wanted = np.full((5, 5), beside) + (1 - beside) * np.eye(5)
    np.testing.assert_allclose(noise.var(axis=0), wanted, rtol=0.12)
    covariance = np.cov(noise[:, 0, 1], noise[:, 2, 3])
    assert abs(covariance[0, 1]) < 0.1


def test_adassp_tight_has_its_ridge_from_the_noise_alone(statistics):
    mechanism = Perturbation(method="adassp", bounds=Bounds(2, 5))
    stds = mechanism.budget(1.0, DELTA).noise_stds
    ridge = mechanism._ridge(statistics, stds, np.zeros(3))
    assert ridge == pytest.approx(1.96 * math.sqrt(8) * stds["xtx"] / math.sqrt(2))


def test_a_release_says_what_it_spent(prepared):
    release = adassp(prepared.X, prepared.y, epsilon=1.0, **HOUSING)
    assert release.theta.shape == (8,)
    assert 0.999 < release.epsilon <= 1.0
    assert release.delta == DELTA
    assert set(release.noise_multipliers) == {"xtx", "xty"}


def theta(prepared, rng, method=ssp, **changed):
    settings = HOUSING | {"epsilon": 1.0} | changed
    return method(prepared.X, prepared.y, rng=rng, **settings).theta


def test_one_generator_gives_one_release_and_none_gives_fresh_ones(prepared):
    first, again = (theta(prepared, np.random.default_rng(1)) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(theta(prepared, None), theta(prepared, None))


def test_repetitions_continue_one_stream(prepared):
    rng = np.random.default_rng(4)
    apart = np.concatenate([theta(prepared, rng, repetitions=n) for n in (2, 1)])
    together = theta(prepared, np.random.default_rng(4), repetitions=3)
    np.testing.assert_allclose(together, apart, rtol=1e-12)


@pytest.mark.parametrize("variant", ["tight", "notebook"])
@pytest.mark.parametrize("method", [ssp, adassp])
def test_less_privacy_ends_at_least_squares(prepared, statistics, method, variant):
    released = theta(prepared, None, method, epsilon=1e8, variant=variant)
    assert statistics.mse_of(released) < statistics.mse + 1e-3


def test_a_ridge_keeps_ssp_short(prepared):
    def length(ridge):
        rng = np.random.default_rng(0)
        return np.linalg.norm(theta(prepared, rng, epsilon=0.5, ridge=ridge))

    assert length(1e4) < length(100.0) < 30


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([[1.0], [float("nan")]], [1, 1], "X must be finite everywhere; row 2 is not"),
        ([[1.0], [0.5]], [1, float("inf")], "y must be finite everywhere; row 2"),
        ([[1.0], [0.5]], [1], "y must have one label per row"),
        ([1.0, 2.0], [1, 2], "X must be a table"),
        (np.empty((0, 3)), [], "X must be a table"),
        ([["a"]], [1], "X must contain only numbers"),
        ([[3.0]], [1], "no row may exceed x_bound = 1; row 1 has norm 3"),
        ([[1.0]], [9], "no row may exceed y_bound = 5; row 1 has label 9"),
    ],
)
def test_bad_data_are_refused_by_name(x, y, message):
    with pytest.raises(ConfigError, match=message):
        ssp(x, y, epsilon=1.0, **HOUSING)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"variant": "loose"}, "variant must be one of tight, notebook"),
        ({"ridge": -1.0}, "ridge must be finite and not below 0"),
        ({"repetitions": -3}, "repetitions must be from 1"),
        ({"x_bound": 0}, "x_bound must be greater than 0"),
    ],
)
def test_bad_arguments_are_refused_by_name(changed, message):
    with pytest.raises(ConfigError, match=message):
        ssp([[0.5]], [1.0], epsilon=1.0, **HOUSING | changed)


@pytest.mark.parametrize(
    "x",
    [np.zeros((5, 3)), np.full((5, 3), 0.5), 0.3 * np.eye(3)[:2]],
    ids=["constant", "collinear", "fewer rows than columns"],
)
def test_degenerate_tables_are_answered(x):
    labels = np.linspace(0, 1, len(x))
    release = adassp(x, labels, epsilon=1.0, delta=0.01, y_bound=1.0, repetitions=20)
    assert np.isfinite(release.theta).all()

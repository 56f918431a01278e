import numpy as np
import pytest

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.regression import compare
from dpsgd_explorer.regression.comparison import EPSILONS, Spread
from dpsgd_explorer.regression.statistics import Statistics


def test_the_budgets_are_the_notebooks():
    assert len(EPSILONS) == 50
    assert (EPSILONS[0], EPSILONS[-1]) == (0.1, 2.0)


def test_all_methods_stand_beside_their_baselines(prepared, statistics):
    found = compare(
        prepared.X,
        prepared.y,
        delta=1e-6,
        y_bound=5.0,
        epsilons=[0.1, 0.2],
        repetitions=60,
        variant="notebook",
        learning_rate="notebook",
        rng=np.random.default_rng(0),
    )
    assert found.statistics.mse == statistics.mse
    assert found.sweeps["ssp"].mse.shape == (2, 60)
    medians = {
        name: [spread.median for spread in sweep.spreads]
        for name, sweep in found.sweeps.items()
    }
    assert medians["adassp"][0] < medians["ssp"][0]
    assert medians["adassp"][1] < medians["adassp"][0]
    assert all(path.epsilon <= 0.2 for path in found.paths.values())
    assert not found.paths["large_noise"].rate_is_private
    rates = {name: path.learning_rate for name, path in found.paths.items()}
    assert rates["rate_x10"] == pytest.approx(100 * rates["rate_div10"])


def test_no_budget_is_refused(prepared):
    with pytest.raises(ConfigError, match="epsilons must contain at least one"):
        compare(prepared.X, prepared.y, delta=1e-6, y_bound=5.0, epsilons=[])


def test_a_spread_puts_up_with_infinity():
    values = np.array([1.0, 2.0, np.inf, np.inf, 3.0])
    spread = Spread.of(values)
    assert (spread.median, spread.low, spread.high) == (3.0, 1.0, np.inf)


def test_errors_from_statistics_are_those_from_residuals(prepared, statistics):
    theta = np.random.default_rng(2).standard_normal((5, 8)) * 40
    direct = ((prepared.y - theta @ prepared.X.T) ** 2).mean(axis=1)
    np.testing.assert_allclose(statistics.mse_of(theta), direct, rtol=1e-12)


def test_collinear_columns_leave_the_shortest_solution():
    x = np.array([[0.5, 0.5], [0.25, 0.25]])
    found = Statistics.of(x, np.array([1.0, 0.5]))
    assert found.rank == 1
    assert found.theta == pytest.approx([1, 1])
    assert found.mse == pytest.approx(0, abs=1e-20)

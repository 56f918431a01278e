"""A regression by several methods as a run: its noise, its ε, its coefficients."""

import math

import numpy as np
import pytest

from dpsgd_explorer.accounting import gaussian_epsilon
from dpsgd_explorer.errors import ConfigError, DataError
from dpsgd_explorer.experiments import own_table
from dpsgd_explorer.experiments.california_housing import housing
from dpsgd_explorer.experiments.experiment import PerformanceSettings
from dpsgd_explorer.experiments.own_csv import check, header, is_for_testing, rows_of
from dpsgd_explorer.experiments.own_table import Column
from dpsgd_explorer.experiments.regression_methods_config import (
    HOUSING,
    RegressionMethodsConfig,
)
from dpsgd_explorer.regression.bounds import Bounds
from dpsgd_explorer.training.regression_methods import RegressionMethods, records
from tests.regression.tables import houses

COLUMNS = (
    Column(name="rooms", kind="number", low=0, high=10),
    Column(name="age", kind="category", values=("old", "new")),
    Column(name="price", kind="target", low=0, high=20),
)


@pytest.fixture(scope="module")
def table():
    return check(houses(), COLUMNS).table


def run_of(table, content=None, **settings):
    config = RegressionMethodsConfig.parse(
        {"dataset": table.name, "table": table, "delta": 1e-5, "steps": 20} | settings
    )
    read = PerformanceSettings(read_table=lambda _name: content or houses())
    return RegressionMethods(config, performance=read)


def told(run, kind):
    return [event.data for event in run.events() if event.kind == kind]


def test_the_default_table_is_the_file_of_california_housing():
    content = housing.content(housing.PATH)
    assert header(content) == [column.name for column in HOUSING.columns]
    tests = [is_for_testing(row) for row in rows_of(content, len(HOUSING.columns))]
    sizes = HOUSING.train_size, HOUSING.test_size
    assert sizes == (len(tests) - sum(tests), sum(tests))
    assert RegressionMethodsConfig.parse({}).table_schema == HOUSING


def test_records_are_within_the_bounds_whatever_the_file_holds(table):
    wild = b"rooms,age,price\n" + b"\n".join(
        b"%d,%s,%d" % (i * 10**6, (b"old", b"new")[i % 2], -i * 10**9)
        for i in range(-50, 150)
    )
    x, y, tests, targets = records(table, wild)
    Bounds(1.0, 1.0).check(np.vstack([x, tests]), np.concatenate([y, targets]))
    assert (
        x.shape[1]
        == RegressionMethodsConfig.parse(
            {"dataset": table.name, "table": table, "delta": 1e-5}
        ).inputs
    )
    assert np.linalg.norm(x, axis=1).max() == pytest.approx(1)
    assert np.abs(y).max() == 1


@pytest.mark.parametrize("methods", ["all", "ssp", "adassp", "noisy_gd"])
def test_all_releases_together_spend_the_target_and_no_more(table, methods):
    run = run_of(table, methods=methods, target_epsilon=1.5)
    end = told(run, "end")[0]
    precision = sum(
        one["times"] / one["noise_multiplier"] ** 2
        for release in end["receipt"]["releases"]
        for one in release["mechanisms"]
    )
    exact = gaussian_epsilon(delta=1e-5, noise_multiplier=1 / math.sqrt(precision))
    assert exact <= end["epsilon"] * (1 + 1e-12)
    assert 1.5 * (1 - 1e-9) < end["epsilon"] <= 1.5


def test_epsilon_grows_with_every_method_and_each_has_the_same_share(table):
    shown = told(run_of(table), "evaluation")
    spent = [one["epsilon"] for one in shown]
    assert spent == sorted(spent)
    assert spent[0] == pytest.approx(shown[0]["epsilon_alone"])
    assert len({round(one["epsilon_alone"], 9) for one in shown}) == 1


def test_the_noise_is_the_noise_of_the_receipt(table):
    """The spread of many releases has the std that ε was counted with."""
    errors = []
    for seed in range(40):
        run = run_of(table, methods="ssp", seed=seed, target_epsilon=50.0)
        [one] = told(run, "evaluation")
        errors.append(one["coefficients"]["slopes"]["rooms"])
    share = run.config.budget.shares[0]
    x, *_ = records(table, houses())
    # To first order, θ moves by (X'X)⁻¹ (e − E θ): e from X'y, E from X'X.
    inverse, theta = np.linalg.inv(x.T @ x), run._statistics.theta
    xty, xtx = (share.budget.noise_stds[name] for name in ("xty", "xtx"))
    row = inverse[1]
    of_xty = xty**2 * row @ row
    of_xtx = xtx**2 / 2 * (row @ row * (theta @ theta) + (row @ theta) ** 2)
    unit = 10 / math.sqrt(3) * 2 / 10  # half the target's width, scale, per room
    expected = unit * math.sqrt(of_xty + of_xtx)
    assert 0.7 < np.std(errors) / expected < 1.35


def test_the_end_has_the_error_of_the_last_method_and_chooses_none(table):
    errors = [
        event.data["not_private_rmse"]
        for event in run_of(table).events()
        if event.kind in ("evaluation", "end")
    ]
    assert errors[-1] == errors[-2] > min(errors)


def test_coefficients_predict_in_the_units_of_the_table(table):
    [phase] = told(run_of(table, methods="ssp"), "phase")
    found = phase["not_private_coefficients"]
    assert found["intercept"] == pytest.approx(1, abs=0.2)
    assert found["slopes"]["rooms"] == pytest.approx(1.5, abs=0.05)
    assert found["slopes"]["age = new"] == pytest.approx(3, abs=0.2)


def test_a_resumed_run_yields_the_rest(table):
    whole = [event.timeless() for event in run_of(table).events()]
    run = run_of(table)
    events = run.events()
    first = [next(events).timeless() for _ in range(4)]
    config = run.config
    read = PerformanceSettings(read_table=lambda _name: houses())
    resumed = RegressionMethods(config, checkpoint=run.checkpoint(), performance=read)
    assert first + [event.timeless() for event in resumed.events()] == whole


def test_another_file_is_refused(table):
    with pytest.raises(DataError, match="it has sha256"):
        run_of(table, content=houses(20))


def test_a_table_with_classes_is_refused():
    columns = (
        Column(name="rooms", kind="number", low=0, high=10),
        Column(name="age", kind="label", values=("old", "new")),
        Column(name="price", kind="ignored"),
    )
    classes = check(houses(), columns).table
    with pytest.raises(ConfigError, match="must have a number to predict") as refusal:
        run_of(classes)
    assert refusal.value.field == "dataset"
    assert own_table.is_own(classes.name)

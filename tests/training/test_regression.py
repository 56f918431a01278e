"""A descent as a run: the library's errors, exact ε."""

import json

import numpy as np
import pytest

from dpsgd_explorer.accounting import gaussian_epsilon
from dpsgd_explorer.errors import DivergedError
from dpsgd_explorer.experiments.california_housing.descents import DescentSpec, compute
from dpsgd_explorer.experiments.regression_config import RegressionConfig
from dpsgd_explorer.regression.comparison import Spread
from dpsgd_explorer.regression.noisy_gd import noisy_gradient_descent
from dpsgd_explorer.training.regression import RegressionExperiment

SHORT = {"noise_multiplier": 50.0, "steps": 60, "repetitions": 5, "evaluations": 6}


def configuration(**settings):
    return RegressionConfig.parse(SHORT | settings)


def told(config, kind):
    return [
        event.data
        for event in RegressionExperiment(config).events()
        if event.kind == kind
    ]


def test_the_errors_are_those_of_the_same_walk_in_the_lab():
    spec = DescentSpec(noise_multiplier=50.0, steps=60, repetitions=5, seed=3)
    end = told(configuration(seed=3), "end")[0]
    last = compute(spec).spreads[-1]
    assert (end["mse_median"], end["mse_low"], end["mse_high"]) == (
        last.median,
        last.low,
        last.high,
    )


def test_the_descent_is_the_librarys_own():
    config = configuration(learning_rate=1e-5, repetitions=4)
    prepared = config.prepared_housing.table
    path = noisy_gradient_descent(
        prepared.X,
        prepared.y,
        noise_multiplier=50.0,
        steps=60,
        delta=config.delta,
        y_bound=5.0,
        learning_rate=1e-5,
        rng=np.random.default_rng(config.seed),
        repetitions=4,
    )
    errors = config.prepared_housing.evaluation_set.mse_of(path.theta)
    assert told(config, "end")[0]["mse_median"] == Spread.of(errors).median
    assert told(config, "end")[0]["epsilon"] == path.epsilon


def test_each_event_says_what_was_spent_by_then_exactly():
    config = configuration()
    points = told(config, "evaluation")
    assert [point["step"] for point in points] == config.evaluation_steps
    assert [point["epsilon"] for point in points] == [
        gaussian_epsilon(delta=config.delta, noise_multiplier=50.0, steps=step)
        for step in config.evaluation_steps
    ]
    assert [step["step"] for step in told(config, "step")] == config.evaluation_steps


def test_the_phase_says_what_an_accountant_and_a_chart_need():
    [phase] = told(configuration(), "phase")
    assert phase["sample_rate"] == 1
    assert (phase["noise_multiplier"], phase["steps"]) == (50.0, 60)
    assert phase["nonprivate_mse"] < phase["trivial_mse"]
    assert phase["learning_rate_is_private"]
    notebook = configuration(learning_rate="notebook")
    assert not told(notebook, "phase")[0]["learning_rate_is_private"]


def test_a_released_rate_is_paid_for_from_the_first_step_on():
    config = configuration(learning_rate="released")
    [phase] = told(config, "phase")
    rate = phase["rate_noise_multiplier"]
    assert rate == config.rate_noise_multiplier
    for point in told(config, "evaluation"):
        precision = point["step"] / 50.0**2 + rate**-2
        whole = gaussian_epsilon(delta=config.delta, noise_multiplier=precision**-0.5)
        assert point["epsilon"] == pytest.approx(whole, rel=1e-9)
    assert (phase["status"], phase["learning_rate_is_private"]) == ("exact", True)
    assert told(configuration(), "phase")[0]["rate_noise_multiplier"] is None


def test_a_released_rate_is_the_same_after_a_resume():
    config = configuration(learning_rate="released", rate_factor=0.5)
    whole = [event.timeless() for event in RegressionExperiment(config).events()]
    begun = RegressionExperiment(config)
    events = begun.events()
    first = [next(events).timeless() for _ in range(5)]
    resumed = RegressionExperiment(config, checkpoint=begun.checkpoint())
    assert first + [event.timeless() for event in resumed.events()] == whole


def test_replacing_a_record_doubles_the_noise_and_not_the_epsilon():
    usual, replaced = (
        told(configuration(neighboring_relation=relation), "step")[0]
        for relation in ("add_or_remove_one", "replace_one")
    )
    assert usual["epsilon"] == replaced["epsilon"]
    before, after = (one["diagnostics"]["noise_std"] for one in (usual, replaced))
    assert after > 1.5 * before


def test_another_seed_is_another_descent():
    assert told(configuration(seed=1), "end") != told(configuration(seed=2), "end")


def test_a_descent_that_is_lost_says_so_and_tells_no_nan():
    said = []

    def listen():
        for event in RegressionExperiment(configuration(learning_rate=10.0)).events():
            said.append((event.kind, json.dumps(event.data, allow_nan=False)))

    with pytest.raises(DivergedError, match="Lower learning_rate"):
        listen()
    assert {kind for kind, _ in said} == {"phase", "step", "evaluation"}

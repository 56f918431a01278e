import math

import pytest

from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.training.event_schedule import MAX_STEP_EVENTS, Schedule


def schedule(**settings):
    config = TrainingConfig.parse({"noise_multiplier": 2.0, **settings})
    return config, Schedule.of(config)


@pytest.mark.parametrize("steps", [1, 2, 300, 1000])
def test_short_runs_report_every_step(steps):
    _, plan = schedule(steps=steps)
    assert plan.reported == set(range(1, steps + 1))


@pytest.mark.parametrize("steps", [1001, 2000, 54_321, 100_000])
def test_long_runs_report_about_a_thousand_with_the_first_and_the_last(steps):
    _, plan = schedule(steps=steps, evaluations=2)
    assert {1, steps} <= plan.reported
    assert MAX_STEP_EVENTS / 2 < len(plan.reported) <= MAX_STEP_EVENTS + 2


def test_evaluations_are_those_of_the_configuration():
    config, plan = schedule(steps=300)
    assert plan.evaluated == set(config.evaluation_steps)


def test_every_reported_step_has_the_plans_own_epsilon():
    config, plan = schedule(steps=50)
    assert plan.epsilons.keys() == {0} | plan.reported | plan.evaluated
    assert plan.epsilons[0] == 0.0
    assert plan.epsilons[50] == config.plan.epsilon()
    assert plan.epsilons[7] == pytest.approx(config.plan.epsilon(7), rel=1e-6)


def test_a_run_stops_before_the_step_that_would_exceed_its_limit():
    config, plan = schedule(steps=300, stop_at_epsilon=1.5)
    assert config.plan.epsilon(plan.last) <= 1.5 < config.plan.epsilon(plan.last + 1)
    assert plan.last in plan.reported
    assert plan.last in plan.evaluated
    assert max(plan.reported | plan.evaluated) == plan.last


def test_a_limit_that_the_first_step_exceeds_allows_no_step():
    _, plan = schedule(steps=300, stop_at_epsilon=0.001)
    assert (plan.last, plan.reported, plan.evaluated) == (0, set(), {0})
    assert plan.epsilons == {0: 0.0}


def test_without_noise_no_step_stays_within_a_limit():
    _, plan = schedule(noise_multiplier=0.0, stop_at_epsilon=8.0)
    assert plan.last == 0


def test_a_run_without_privacy_goes_on_to_its_end():
    _, plan = schedule(private=False, steps=30, stop_at_epsilon=1.0)
    assert plan.last == 30


@pytest.mark.parametrize(
    "settings", [{"private": False}, {"noise_multiplier": 0.0}], ids=str
)
def test_epsilon_is_none_where_there_is_no_guarantee(settings):
    _, plan = schedule(steps=5, **settings)
    assert set(plan.epsilons.values()) == {None}


def test_no_epsilon_is_infinite_or_nan():
    _, plan = schedule(steps=20)
    assert all(math.isfinite(value) for value in plan.epsilons.values())

"""The settings of a blind search: its grid, its price, and what it refuses."""

import pytest

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments.search_config import SEARCHED, SearchConfig
from dpsgd_explorer.experiments.training_config import TrainingConfig

ADULT = {
    "dataset": "adult",
    "model": "logistic",
    "noise_multiplier": 1.0,
    "steps": 5,
    "expected_batch_size": 64,
}


def search(**settings):
    return SearchConfig.parse(ADULT | settings)


def test_every_combination_of_the_values_is_in_the_grid():
    config = search(learning_rate_values="1 2", momentum_values=" 0   0.9 ")
    assert config.grid == (
        {"learning_rate": 1.0, "momentum": 0.0},
        {"learning_rate": 1.0, "momentum": 0.9},
        {"learning_rate": 2.0, "momentum": 0.0},
        {"learning_rate": 2.0, "momentum": 0.9},
    )
    trial = config.trial(config.grid[3], seed=11)
    base = TrainingConfig.parse(ADULT)
    changed = {"learning_rate": 2.0, "momentum": 0.9, "seed": 11, "audit": 0}
    assert trial == TrainingConfig.parse(base.model_dump() | changed)


def test_neither_noise_nor_length_of_a_trial_depends_on_what_it_draws():
    config = search(
        learning_rate_values="1 2",
        max_grad_norm_values="0.1 3",
        momentum_values="0 1e-3",
    )
    assert config.searched == SEARCHED
    trials = [config.trial(drawn, seed=i) for i, drawn in enumerate(config.grid)]
    assert len({trial.plan for trial in trials}) == 1
    assert len({trial.cost for trial in trials}) == 1
    assert config.plan == trials[0].plan


def test_its_length_and_cost_are_those_of_all_trainings():
    config = search(mean_trials=10.0)
    assert config.planned_steps == config.trainings == config.price.trainings > 20
    assert config.cost == config.trainings * config.base.cost
    assert config.price.delta == config.delta
    assert search(noise_schedule="linear").plan.phases  # noise of a trial's own steps


def test_the_learning_rate_is_searched_where_nothing_is_said():
    assert search().searched == ("learning_rate",)
    assert search(momentum_values="0 0.5").searched == ("momentum",)


@pytest.mark.parametrize(
    ("settings", "field", "says"),
    [
        ({"learning_rate_values": None}, "learning_rate_values", "2 or more"),
        ({"learning_rate_values": "4"}, "learning_rate_values", "2 or more"),
        ({"learning_rate_values": "4 4"}, "learning_rate_values", "different"),
        ({"learning_rate_values": " "}, "learning_rate_values", "1 to 20"),
        (
            {"learning_rate_values": " ".join(map(str, range(1, 22)))},
            "learning_rate_values",
            "1 to 20",
        ),
        ({"learning_rate_values": "4 fast"}, "learning_rate_values", "'fast'"),
        ({"learning_rate_values": "4 -1"}, "learning_rate_values", "greater than 0"),
        ({"learning_rate_values": "4 nan"}, "learning_rate_values", "nan"),
        ({"learning_rate_values": "4 1e999"}, "learning_rate_values", "inf"),
        ({"momentum_values": "0 1"}, "momentum_values", "less than 1"),
        ({"max_grad_norm_values": "0 1"}, "max_grad_norm_values", "greater than 0"),
        ({"mean_trials": 0.5}, "mean_trials", "at least 1"),
        ({"mean_trials": 101.0}, "mean_trials", "at most 100"),
        ({"private": False}, "private", "must have privacy"),
        ({"noise_multiplier": 0.0}, "noise_multiplier", "must have privacy"),
        ({"stop_at_epsilon": 1.0}, "stop_at_epsilon", "left out"),
    ],
    ids=str,
)
def test_what_no_search_can_be_is_refused_at_its_place(settings, field, says):
    with pytest.raises(ConfigError) as refusal:
        search(**settings)
    assert refusal.value.field == field
    assert says in str(refusal.value)


def test_noise_too_weak_for_any_number_of_trainings_is_refused():
    with pytest.raises(ConfigError, match="Add noise, or use fewer trials") as refusal:
        search(noise_multiplier=0.01, expected_batch_size=20_000).check_reachable()
    assert refusal.value.field == "mean_trials"


def test_nothing_is_changed_in_mid_run():
    with pytest.raises(ConfigError, match="cannot be changed"):
        search().changed({"learning_rate": 1.0})

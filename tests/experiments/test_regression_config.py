"""Settings of a regression run: two of noise, steps and ε, and public bounds."""

import math

import pytest

from dpsgd_explorer.accounting import gaussian_epsilon
from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments.config import check_cost
from dpsgd_explorer.experiments.regression_config import SPEND, RegressionConfig


def test_nothing_at_all_is_the_long_descent_of_the_notebook():
    config = RegressionConfig.parse({})
    assert config.schedule == (500.0, 50_251)
    assert config.epsilon <= config.target_epsilon == 2


@pytest.mark.parametrize(
    ("given", "schedule"),
    [
        ({"noise_multiplier": 50.0}, (50.0, 502)),
        ({"noise_multiplier": 50.0, "steps": 10}, (50.0, 10)),
        ({"noise_multiplier": 50.0, "target_epsilon": 2.0}, (50.0, 502)),
    ],
    ids=str,
)
def test_two_of_three_give_the_third(given, schedule):
    config = RegressionConfig.parse(given)
    assert config.schedule == schedule
    assert sum(getattr(config, name) is not None for name in SPEND) == 2


def test_steps_and_target_give_the_least_noise_that_is_safe():
    config = RegressionConfig.parse({"steps": 100, "target_epsilon": 0.5})
    noise, steps = config.schedule
    assert steps == 100
    assert (
        gaussian_epsilon(delta=config.delta, noise_multiplier=noise, steps=100) <= 0.5
    )
    assert (
        gaussian_epsilon(
            delta=config.delta, noise_multiplier=noise * (1 - 1e-6), steps=100
        )
        > 0.5
    )


@pytest.mark.parametrize(
    "given",
    [
        {"target_epsilon": 1.0, "steps": 80},
        {"target_epsilon": 1.0, "noise_multiplier": 60.0},
        {"noise_multiplier": 60.0, "steps": 80},
    ],
    ids=str,
)
def test_a_released_rate_is_part_of_what_the_run_spends(given):
    config = RegressionConfig.parse(given | {"learning_rate": "released"})
    noise, steps = config.schedule
    assert config.epsilon > gaussian_epsilon(
        delta=config.delta, noise_multiplier=noise, steps=steps
    )
    assert config.epsilon <= given.get("target_epsilon", math.inf)
    alone = gaussian_epsilon(
        delta=config.delta, noise_multiplier=config.rate_noise_multiplier
    )
    assert config.spent(0) == pytest.approx(alone, rel=1e-9)
    assert not config.uses_private_rate
    public = RegressionConfig.parse(given)
    assert public.rate_noise_multiplier is None


def test_a_delta_of_which_no_epsilon_is_known_is_refused_at_once():
    given = {"noise_multiplier": 50.0, "steps": 7, "delta": 5e-324}
    with pytest.raises(ConfigError, match="delta must be at least 1e-300"):
        RegressionConfig.parse(given)


def test_what_is_stored_is_read_back_as_the_same():
    config = RegressionConfig.parse({"steps": 7, "learning_rate": 1e-6})
    assert RegressionConfig.parse(config.model_dump(mode="json")) == config


def test_text_of_an_address_is_read_as_numbers_and_words():
    read = RegressionConfig.from_query(
        {"steps": "7", "learning_rate": "1e-6", "rows": "clip", "seed": ""}
    )
    assert (read.steps, read.learning_rate, read.rows) == (7, 1e-6, "clip")
    assert RegressionConfig.from_query({"learning_rate": "notebook"}).seed == 0


def test_points_end_with_the_last_step():
    points = RegressionConfig.parse({}).evaluation_steps
    assert points[-1] == 50_251
    assert len(points) == 100


def test_a_run_beyond_the_bound_is_refused_with_what_to_do():
    config = RegressionConfig.parse({"repetitions": 1000})
    check_cost(config, config.cost)
    with pytest.raises(ConfigError, match="fewer repetitions") as refusal:
        check_cost(config, config.cost / 2)
    assert refusal.value.field == "steps"

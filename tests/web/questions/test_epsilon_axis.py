"""The ε axis of a run's charts: its budget, its decimals, its ticks with odds."""

import math

import pytest

from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.questions.epsilon_axis import epsilon_axis, planned_axis

ADULT = {"dataset": "adult", "model": "logistic"}
BUDGETS = [1e-6, 0.01, 0.07, 0.3, 2.41, 8, 30, 999, 1000, 5e4]


@pytest.mark.parametrize("budget", BUDGETS)
def test_ticks_are_even_and_their_odds_are_those_of_the_promise(budget):
    ticks = epsilon_axis(budget, "planned").ticks
    assert 4 <= len(ticks) <= 11
    assert 0.7 * budget < ticks[-1].epsilon <= 1.001 * budget
    step = ticks[1].epsilon
    for i, tick in enumerate(ticks):
        assert tick.epsilon == pytest.approx(i * step, rel=1e-9)
        assert float(tick.text) == pytest.approx(tick.epsilon, rel=1e-9)
        share = 100 / (1 + math.exp(-tick.epsilon))
        assert share <= float(tick.odds) + 1e-9 <= share + 0.2


@pytest.mark.parametrize(
    ("settings", "epsilon", "stops_early", "wanted"),
    [
        ({"target_epsilon": 1.0}, 1.0, False, (1.0, "1.00", "budget")),
        ({"noise_multiplier": 4.0}, 0.7312, False, (0.7312, "0.74", "planned")),
        (
            {"target_epsilon": 1.0, "stop_at_epsilon": 0.5},
            0.5,
            True,
            (0.5, "0.50", "stop at"),
        ),
        (
            {"target_epsilon": 1.0, "stop_at_epsilon": 9.0},
            1.0,
            False,
            (1.0, "1.00", "budget"),
        ),
        ({"private": False}, None, False, (None, "∞", "budget")),
    ],
)
def test_the_line_is_at_the_epsilon_at_which_the_run_ends(
    settings, epsilon, stops_early, wanted
):
    config = TrainingConfig.parse(ADULT | settings)
    axis = planned_axis(config, epsilon, stops_early=stops_early)
    assert (axis.budget, axis.budget_text, axis.budget_word) == wanted
    assert bool(axis.ticks) == (epsilon is not None)


@pytest.mark.parametrize("budget", BUDGETS)
def test_the_decimals_tell_values_below_the_budget_apart(budget):
    axis = epsilon_axis(budget, "planned")
    assert budget <= float(axis.budget_text) <= 1.6 * budget
    assert 10.0**-axis.digits <= budget / 5

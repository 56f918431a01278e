"""The comparisons that chapters make, each with what it holds fixed; see Comparison.

A chapter prints ``compare.<name>[0]``, ``compare.<name>[1]`` and, in the same
paragraph, ``compare.<name>.held``.
"""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

from dpsgd_explorer.web.content import numbers
from dpsgd_explorer.web.hub.chapters.private_linear_regression import (
    figures as regression_chapter,
)
from dpsgd_explorer.web.hub.examples import classic_run as budget
from dpsgd_explorer.web.hub.examples import toy_training
from dpsgd_explorer.web.hub.widgets.randomised_response import survey as response
from dpsgd_explorer.web.hub.widgets.two_worlds import widget as two_worlds
from dpsgd_explorer.web.questions import odds
from dpsgd_explorer.web.questions.comparison import Comparison
from dpsgd_explorer.web.questions.rounding import (
    certainty_limit,
    limit,
    nearest,
    percent,
    points,
    whole,
)

SHOWN_EPSILONS = (0.1, 1.0, 3.0, 8.0)
CLASSIC = {
    "expected_batch_size": budget.BATCH_SIZE,
    "epochs": budget.EPOCHS,
    "sample_size": budget.SAMPLE_SIZE,
}
PAPER = {"sample_rate": 0.01, "noise_multiplier": 4.0, "steps": 10_000}  # Abadi 2016
FULL_BATCH = {"sample_rate": 1.0, "noise_multiplier": 10.0, "steps": 100}

COMPARISONS = {
    "attacker": Comparison(
        two_worlds.right_calls,
        "noise_multiplier",
        (1.0, 8.0),
        {"sample_rate": two_worlds.SHOWN_RATE, "steps": toy_training.STEPS},
        partial(percent, digits=0),
    ),
    "curator": Comparison(
        response.noise_error,
        "noise_on",
        ("the total", "each answer"),
        {"people": 10_000, "epsilon": 1.0},
        points,
    ),
    "odds": Comparison(
        odds.posterior, "epsilon", SHOWN_EPSILONS, {"prior": 0.5}, certainty_limit
    ),
    "relation": Comparison(
        numbers.epsilon_of_sum, "sensitivity", (1.0, 2.0), {"noise_std": 1.0}, limit
    ),
    "more_noise": Comparison(
        numbers.epsilon_of_run, "noise_multiplier", (1.1, 2.2), CLASSIC, limit
    ),
    "usual_noise": Comparison(
        numbers.epsilon_of_run, "noise_multiplier", (0.5, 2.0), CLASSIC, limit
    ),
    "price_of_target": Comparison(
        numbers.noise_factor,
        "epsilon",
        (10.0, 1.0),
        {
            "divided_by": 10 / 3,
            "expected_batch_size": numbers.default_run().expected_batch_size,
            "steps": numbers.default_run().planned_steps,
        },
        partial(nearest, digits=2),
    ),
    "model_size": Comparison(
        numbers.noise_length,
        "model",
        ("scattering_linear", "mlp"),
        {"dataset": "mnist"},
        whole,
    ),
    "one_step": Comparison(
        numbers.epsilon_of_step,
        "sample_rate",
        (1.0, numbers.classic_rate()),
        {"noise_multiplier": budget.NOISE_MULTIPLIER},
        partial(limit, digits=3),
    ),
    "paper_run": Comparison(
        numbers.counted_epsilon, "accountant", ("moments", "rdp", "exact"), PAPER, limit
    ),
    "classic_run": Comparison(
        numbers.counted_epsilon,
        "accountant",
        ("exact", "rdp"),
        {
            "sample_rate": numbers.classic_rate(),
            "noise_multiplier": budget.NOISE_MULTIPLIER,
            "steps": budget.classic_plan().steps,
        },
        limit,
    ),
    "full_batch": Comparison(
        numbers.counted_epsilon, "accountant", ("exact", "rdp"), FULL_BATCH, limit
    ),
    "lasting": Comparison(
        numbers.allowed_steps,
        "epsilon",
        (2.0, 3.0),
        {
            "noise_multiplier": budget.NOISE_MULTIPLIER,
            "expected_batch_size": budget.BATCH_SIZE,
        },
        whole,
    ),
    "longer": Comparison(
        numbers.sampled_epsilon,
        "steps",
        (1_000, 4_000),
        {"sample_rate": 0.05, "noise_multiplier": 3.53},
        limit,
    ),
    "spending": Comparison(
        regression_chapter.median_error,
        "spending",
        ("notebook", "tight"),
        {"method": "adassp", "epsilon": 0.1, "repetitions": 200},
        partial(nearest, digits=2),
    ),
    "descent_noise": Comparison(
        regression_chapter.planned_steps,
        "noise_multiplier",
        (regression_chapter.SMALL_NOISE, regression_chapter.LARGE_NOISE),
        {"epsilon": 2.0},
        whole,
    ),
    "tie": Comparison(
        regression_chapter.compared_error,
        "method",
        ("descent", "adassp"),
        {"epsilon": 2.0},
        partial(nearest, digits=3),
    ),
    "rate": Comparison(
        regression_chapter.small_noise_end,
        "rate",
        ("notebook", "public"),
        {"noise_multiplier": regression_chapter.SMALL_NOISE, "epsilon": 2.0},
        partial(nearest, digits=3),
    ),
}
compare = SimpleNamespace(**COMPARISONS)

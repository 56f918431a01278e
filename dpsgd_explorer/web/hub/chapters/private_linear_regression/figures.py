"""Pictures and numbers of the chapter on private linear regression."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache, partial

import numpy as np

from dpsgd_explorer.accounting import gaussian_epsilon
from dpsgd_explorer.experiments.california_housing import housing
from dpsgd_explorer.regression.checks import Array
from dpsgd_explorer.regression.comparison import Spread
from dpsgd_explorer.regression.spending import steps_within
from dpsgd_explorer.web.figures.svg import Picture
from dpsgd_explorer.web.hub.examples.default_run import default_plan
from dpsgd_explorer.web.hub.widgets.regression_errors.widget import (
    FIRST_EPSILON,
    REPETITIONS,
    median_at,
)
from dpsgd_explorer.web.labs.regression import figures as lab
from dpsgd_explorer.web.labs.regression.question import RegressionQuestion
from dpsgd_explorer.web.labs.regression.results import (
    View,
    median_range,
    sweep_cached,
)
from dpsgd_explorer.web.questions.comparison import Comparison
from dpsgd_explorer.web.questions.rounding import (
    known_to,
    limit,
    nearest,
    percent,
    significant,
    whole,
)

__all__ = [
    "REPETITIONS",
    "SMALL_NOISE",
    "default_plan",
    "descent_error",
    "error_at_the_private_rate",
    "error_by_method",
    "error_by_rate",
    "error_by_spending",
    "error_of_one_in_twenty",
    "error_of_the_mean",
    "error_without_privacy",
    "feature_count",
    "features_beyond_range",
    "halved_noise_epsilon",
    "label_bounds",
    "lambda_min",
    "lambda_min_noise",
    "lambda_min_seen_percent",
    "matrix_entries",
    "median",
    "median_between",
    "rates_picture",
    "record_count",
    "steps_by_noise",
]

LARGE_EPSILON = 2.0
SMALL_NOISE, LARGE_NOISE = 50.0, 500.0
LOWER_LABEL_BOUND = 2.0  # as in the lab's preset "Labels cut at 2"
NUMERALS = ("none", "one", "two", "three", "four", "five", "six", "seven", "all eight")


@cache
def comparison_picture() -> Picture:
    """Returns the error of all methods against ε."""
    return lab.errors_picture(View(RegressionQuestion(epsilon=FIRST_EPSILON)))


@cache
def rates_picture() -> Picture:
    """Returns the notebook's long descent at three learning rates."""
    return replace(lab.rates_picture(_notebook()), kind="recorded")


def record_count() -> str:
    """Returns the number of records."""
    return whole(housing.SIZE)


def feature_count() -> int:
    """Returns the number of features."""
    return len(housing.FEATURES)


def matrix_entries() -> int:
    """Returns the number of distinct entries of the symmetric matrix X'X."""
    return feature_count() * (feature_count() + 1) // 2


def features_beyond_range() -> str:
    """Returns the number of features that exceed their "natural range", as a word."""
    rows, _ = housing.load()
    beyond = (np.abs(rows) > np.array(housing.RANGES)).any(axis=0)
    return NUMERALS[int(beyond.sum())]


def label_bounds() -> tuple[float, float]:
    """Returns the label bound of the chapter, and the lower one of its question."""
    return housing.NOTEBOOK.y_bound, LOWER_LABEL_BOUND


def error_without_privacy() -> str:
    """Returns the error of least squares without privacy."""
    return nearest(_notebook().evaluation_set.mse, 3)


def error_of_the_mean() -> str:
    """Returns the error of always answering the mean."""
    return nearest(_notebook().evaluation_set.trivial_mse, 3)


def median_error(method: str, epsilon: float, spending: str, repetitions: int) -> float:
    """Returns the median error of ``repetitions`` releases of a method."""
    spread, _ = _released(method, epsilon, spending, repetitions)
    return spread.median


def median(method: str, epsilon: float) -> str:
    """Returns the median error of ``REPETITIONS`` releases, to its certain digits."""
    spread, errors = _released(method, epsilon, "tight", REPETITIONS)
    return known_to(spread.median, *median_range(errors))


def median_between(method: str, epsilon: float) -> str:
    """Returns the 95% confidence interval of the median error."""
    _, errors = _released(method, epsilon, "tight", REPETITIONS)
    low, high = median_range(errors)
    return f"{nearest(low)} and {nearest(high)}"


def error_of_one_in_twenty(method: str, epsilon: float) -> str:
    """Returns the error that one release in twenty exceeds."""
    spread, _ = _released(method, epsilon, "tight", REPETITIONS)
    return significant(spread.high)


def _released(
    method: str, epsilon: float, spending: str, repetitions: int
) -> tuple[Spread, Array]:
    """Returns the spread and the errors of releases at one ε."""
    question = RegressionQuestion(epsilon=epsilon)
    found = sweep_cached(
        question.perturbation(method, spending),
        question.prepared_housing,
        (epsilon,),
        question.delta,
        (repetitions, question.seed),
    )
    return found.spreads[0], found.mse[0]


def small_noise_end(rate: str, noise_multiplier: float, epsilon: float) -> float:
    """Returns the final error of a short descent; rate "public" or "notebook"."""
    question = RegressionQuestion(rate=rate, noise_multiplier=noise_multiplier)
    spread = View(question).followed[""].within(epsilon)
    assert spread is not None, "a descent that has begun has an error"
    return spread.median


def descent_error(epsilon: float) -> str:
    """Returns the error of the figure's descent at ``epsilon``."""
    return nearest(median_at("small_noise", epsilon))


def compared_error(method: str, epsilon: float) -> float:
    """Returns the error of "adassp" or the long "descent", as in the comparison figure.

    Both are private: the descent has the rate that follows from public bounds.
    """
    return median_at("large_noise" if method == "descent" else method, epsilon)


def error_at_the_private_rate(epsilon: float) -> str:
    """Returns the error of the long descent at the notebook's rate: not private."""
    spread = _notebook().followed[""].within(epsilon)
    assert spread is not None, "a descent that has begun has an error"
    return nearest(spread.median, 3)


def lambda_min() -> str:
    """Returns the least eigenvalue of X'X."""
    return nearest(_notebook().evaluation_set.lambda_min)


def lambda_min_noise() -> str:
    """Returns the noise on ``lambda_min`` in the notebook's AdaSSP at the largest ε."""
    return nearest(_lambda_min_std(), 1)


def lambda_min_seen_percent() -> str:
    """Returns the percentage of releases whose lower bound on it is above 0."""
    z = 1.96 - _notebook().evaluation_set.lambda_min / _lambda_min_std()
    return percent(math.erfc(z / math.sqrt(2)) / 2)


def planned_steps(noise_multiplier: float, epsilon: float) -> int:
    """Returns the maximum number of steps of a descent at ``epsilon``."""
    return steps_within(epsilon, noise_multiplier, RegressionQuestion().delta)


def halved_noise_epsilon(noise_multiplier: float) -> str:
    """Returns the ε of such a descent if half the sensitivity is assumed."""
    question = RegressionQuestion(noise_multiplier=noise_multiplier)
    return limit(
        gaussian_epsilon(
            delta=question.delta,
            noise_multiplier=noise_multiplier / 2,
            steps=question.run.planned_steps,
        )
    )


@cache
def _notebook() -> View:
    return View(
        RegressionQuestion(
            epsilon=LARGE_EPSILON,
            variant="notebook",
            noise_multiplier=LARGE_NOISE,
            rate="notebook",
        )
    )


def _lambda_min_std() -> float:
    return _notebook().budget.noise_stds["lambda_min"]


thumbnail = comparison_picture

error_by_spending = Comparison(
    median_error,
    "spending",
    ("notebook", "tight"),
    {"method": "adassp", "epsilon": 0.1, "repetitions": REPETITIONS},
    partial(nearest, digits=2),
)
steps_by_noise = Comparison(
    planned_steps,
    "noise_multiplier",
    (SMALL_NOISE, LARGE_NOISE),
    {"epsilon": LARGE_EPSILON},
    whole,
)
error_by_method = Comparison(
    compared_error,
    "method",
    ("descent", "adassp"),
    {"epsilon": LARGE_EPSILON},
    partial(nearest, digits=3),
)
error_by_rate = Comparison(
    small_noise_end,
    "rate",
    ("notebook", "public"),
    {"noise_multiplier": SMALL_NOISE, "epsilon": LARGE_EPSILON},
    partial(nearest, digits=3),
)

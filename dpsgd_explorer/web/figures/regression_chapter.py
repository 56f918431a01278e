"""Pictures and numbers of the chapter on private linear regression."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

from dpsgd_explorer.accounting import gaussian_epsilon, round_up
from dpsgd_explorer.regression import housing
from dpsgd_explorer.web.figures.regression import errors_picture, path_picture
from dpsgd_explorer.web.figures.regression_parts import cloud_picture
from dpsgd_explorer.web.figures.svg import Picture
from dpsgd_explorer.web.questions.regression import RegressionQuestion
from dpsgd_explorer.web.questions.regression_results import Followed, View, mse

SMALL_EPSILON, LARGE_EPSILON = 0.1, 2.0
LARGE_NOISE = 500.0
REPETITIONS = 200  # of every release that the text or the picture speaks of


@cache
def comparison_picture() -> Picture:
    """Return the error of all methods against ε."""
    question = RegressionQuestion(epsilon=SMALL_EPSILON, repetitions=REPETITIONS)
    return errors_picture(View(question))


@cache
def pull_picture() -> Picture:
    """Return the cloud of AdaSSP's releases at a small ε."""
    return cloud_picture(View(RegressionQuestion(epsilon=0.5)))


@cache
def rates_picture() -> Picture:
    """Return the notebook's long descent at three learning rates."""
    return replace(path_picture(_notebook()), kind="recorded")


def size() -> str:
    """Return the number of records."""
    return f"{housing.SIZE:,}"


def nonprivate() -> str:
    """Return the error of least squares without privacy."""
    return mse(_notebook().evaluation_set.mse)


def trivial() -> str:
    """Return the error of always answering the mean."""
    return mse(_notebook().evaluation_set.trivial_mse)


def median(method: str, epsilon: float, variant: str = "tight") -> str:
    """Return the median error of a method's releases."""
    view = View(RegressionQuestion(epsilon=epsilon, repetitions=REPETITIONS))
    return mse(view.chosen[method][variant].spreads[0].median)


def one_in_twenty(method: str, epsilon: float) -> str:
    """Return the error that one release in twenty exceeds."""
    view = View(RegressionQuestion(epsilon=epsilon, repetitions=REPETITIONS))
    return mse(view.chosen[method]["tight"].spreads[0].high)


def small_noise_end(rate: str) -> str:
    """Return where the short descent ends with a "public" or the "notebook" rate."""
    return mse(View(RegressionQuestion(rate=rate)).followed[""].end.median)


def lambda_min() -> str:
    """Return the least eigenvalue of X'X."""
    return f"{_notebook().evaluation_set.lambda_min:.2f}"


def lambda_min_noise() -> str:
    """Return the noise on it in the notebook's AdaSSP at the largest ε."""
    return f"{_lambda_min_std():.1f}"


def lambda_min_seen() -> str:
    """Return, in percent, how often its lower bound rises above 0 there."""
    z = 1.96 - _notebook().evaluation_set.lambda_min / _lambda_min_std()
    return f"{50 * math.erfc(z / math.sqrt(2)):.1f}"


def steps(noise_multiplier: float) -> str:
    """Return how many steps of a descent ε = 2 allows."""
    return f"{RegressionQuestion(noise_multiplier=noise_multiplier).planned_steps:,}"


def halved_noise_epsilon(noise_multiplier: float) -> str:
    """Return what such a descent spends if the sensitivity is taken for half of it."""
    question = RegressionQuestion(noise_multiplier=noise_multiplier)
    return round_up(
        gaussian_epsilon(question.delta, noise_multiplier / 2, question.planned_steps)
    )


def descent_end(factor: str = "") -> str:
    """Return where the notebook's long descent ends; "× 10" and "÷ 10" its variants."""
    return mse(_followed(factor).end.median)


def _followed(factor: str) -> Followed:
    return _notebook().followed[factor]


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

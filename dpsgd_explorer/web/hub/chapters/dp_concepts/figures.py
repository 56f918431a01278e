"""Figures of the core concepts: one Gaussian release, and two worlds."""

from __future__ import annotations

import math
from functools import partial

from dpsgd_explorer import accounting
from dpsgd_explorer.web.hub.chapters.dp_concepts.tail import DELTA, tail_picture
from dpsgd_explorer.web.hub.examples import toy_training
from dpsgd_explorer.web.hub.examples.classic_run import classic_plan
from dpsgd_explorer.web.hub.examples.default_run import default_plan
from dpsgd_explorer.web.hub.examples.toy_problem import SIZE as TOY_SIZE
from dpsgd_explorer.web.hub.widgets.two_worlds import widget as two_worlds
from dpsgd_explorer.web.questions.comparison import Comparison
from dpsgd_explorer.web.questions.rounding import limit, nearest, need, percent

__all__ = [
    "TOY_SIZE",
    "classic_plan",
    "classical_noise",
    "default_plan",
    "epsilon_by_sensitivity",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_noise",
    "percent_at_least_once",
    "probability_beyond",
    "right_calls_by_noise",
    "summed_epsilon",
    "tail_picture",
]

thumbnail = tail_picture


def epsilon_of_sum(sensitivity: float, noise_std: float) -> float:
    """Returns the exact ε of one sum with Gaussian noise, not rounded."""
    return accounting.gaussian_epsilon(
        delta=DELTA, noise_multiplier=noise_std / sensitivity
    )


right_calls_by_noise = Comparison(
    two_worlds.right_calls,
    "noise_multiplier",
    (1.0, 8.0),
    {"sample_rate": two_worlds.SHOWN_RATE, "steps": toy_training.STEPS},
    partial(percent, digits=0),
)
epsilon_by_sensitivity = Comparison(
    epsilon_of_sum, "sensitivity", (1.0, 2.0), {"noise_std": 1.0}, limit
)


def gaussian_epsilon(noise_multiplier: float, steps: int) -> str:
    """Returns the exact ε of Gaussian releases of all records."""
    return limit(
        accounting.gaussian_epsilon(
            delta=DELTA, noise_multiplier=noise_multiplier, steps=steps
        )
    )


def summed_epsilon(noise_multiplier: float, steps: int) -> str:
    """Returns the sum of the ε of single Gaussian releases, each at δ / steps."""
    return limit(
        steps
        * accounting.gaussian_epsilon(
            delta=DELTA / steps, noise_multiplier=noise_multiplier
        )
    )


def gaussian_delta(epsilon: float, noise_multiplier: float) -> str:
    """Returns the exact δ of one Gaussian release of all records."""
    return limit(
        accounting.gaussian_delta(epsilon=epsilon, noise_multiplier=noise_multiplier), 3
    )


def probability_beyond(epsilon: float, noise_multiplier: float) -> str:
    """Returns the probability that the privacy loss of one release exceeds ε.

    The loss is N(μ²/2, μ²) with μ = 1/σ.
    """
    mu = 1 / noise_multiplier
    z = (epsilon - mu * mu / 2) / mu
    return nearest(math.erfc(z / math.sqrt(2)) / 2, 3)


def gaussian_noise(epsilon: float) -> str:
    """Returns the exact noise multiplier of one Gaussian release."""
    return need(accounting.gaussian_noise_multiplier(epsilon=epsilon, delta=DELTA))


def classical_noise(epsilon: float) -> str:
    """Returns the noise multiplier of the classical formula √(2 ln(1.25/δ)) / ε."""
    return need(math.sqrt(2 * math.log(1.25 / DELTA)) / epsilon)


def percent_at_least_once(probability: float, tries: int) -> str:
    """Returns the probability of at least one success in independent tries, percent."""
    return percent(-math.expm1(tries * math.log1p(-probability)), 0)

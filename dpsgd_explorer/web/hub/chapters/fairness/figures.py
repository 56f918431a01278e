"""Figures of the chapter on fairness, from the recorded runs with a rare digit."""

from __future__ import annotations

import math

from dpsgd_explorer.web.hub.examples.default_run import default_run, scaled_bound
from dpsgd_explorer.web.hub.widgets.rare_class.readings import (
    average_points_lost,
    clipped_share,
    frequent_accuracy,
    learning_rates,
    noise_ratio,
    points_lost,
    rare_accuracy,
    rare_digit,
    rare_picture,
    rate_factors,
    record_count,
    stored,
    tuned_factor,
)
from dpsgd_explorer.web.questions.rounding import nearest

__all__ = [
    "average_points_lost",
    "clipped_share",
    "default_run",
    "exponential",
    "frequent_accuracy",
    "learning_rates",
    "noise_ratio",
    "points_lost",
    "rare_accuracy",
    "rare_digit",
    "rate_factors",
    "record_count",
    "scaled_bound",
    "steps",
    "tuned_factor",
]

thumbnail = rare_picture


def steps() -> int:
    """Returns the number of steps of each recorded run."""
    count: int = stored()["steps"]
    return count


def exponential(epsilon: float) -> str:
    """Returns e^ε, to nearest."""
    return nearest(math.exp(epsilon), 0)

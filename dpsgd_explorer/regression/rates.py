"""Learning rates of noisy gradient descent: from bounds, from the data, or released.

Stochastic descent on an L-smooth f has the rate eta = min(1/L, sqrt(2 (f_0 - f*) /
(L T d v))), v the noise variance of a coordinate.

* "public" uses bounds that do not depend on the data: L <= n B^2,
  f_0 - f* <= n Y^2 / 2, and GS at ‖theta‖ = 1.  Then n cancels in the second term:
  Y / (B s GS sqrt(d T)).
* "notebook" is min(1/l, 4 / sqrt(d s GS l T)) with l the largest eigenvalue of X'X.
  It is not private: l comes from the data, and no budget is spent on it.
* "released" replaces l in "notebook" by a released upper bound, l + B^2 r (z + c) with
  z ~ N(0, 1), from the budget of the descent (see ``spending``).  With c = 1.96 the
  bound is below l in one release of 40; the privacy guarantee holds for any bound.

Sensitivity of l, as of every eigenvalue: a record adds x x', which is positive
semidefinite with largest eigenvalue ‖x‖^2 <= B^2, so by Weyl's inequality no eigenvalue
falls and none rises by more than B^2.  With one record replaced, both data sets lie
between the rest and the rest plus B^2, so the difference is at most B^2 again.

Source: Ghadimi and Lan (2013), arXiv:1309.5549, for the rate; Wang (2018),
arXiv:1803.02596, Algorithm 2, which so releases the least eigenvalue; Horn and Johnson,
Matrix Analysis, Theorem 4.3.1, for Weyl's inequality.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.regression import checks
from dpsgd_explorer.regression.bounds import Bounds
from dpsgd_explorer.regression.checks import Array
from dpsgd_explorer.regression.spending import rate_noise
from dpsgd_explorer.regression.statistics import Statistics
from dpsgd_explorer.validation import one_of

RELEASED = "released"
RATES = ("public", "notebook", RELEASED)
#: Norm of theta that a learning rate assumes.
TYPICAL_NORM = np.array(1.0)
NOTEBOOK_NUMERATOR = 4.0
#: Standard deviations of noise that are added to a released eigenvalue, c.
UPPER_DEVIATIONS = 1.96


def resolve_rate(
    rate: float | str | None,
    statistics: Statistics,
    bounds: Bounds,
    schedule: tuple[float, int],
    public_size: int | None,
) -> float | str:
    """Returns the learning rate as a number; "released", which needs noise, as it is.

    Raises:
        ConfigError: the rate is neither a positive number nor a known name, or the rate
            is "public" without a public size.
    """
    rate = checks.rate(rate)
    if rate is None or rate == "public":
        return public_rate(statistics.dim, bounds, schedule, public_size)
    if isinstance(rate, str):
        one_of("learning_rate", rate, RATES)
        is_released = rate == RELEASED
        return rate if is_released else notebook_rate(statistics, bounds, schedule)
    return rate


def public_rate(
    dim: int, bounds: Bounds, schedule: tuple[float, int], public_size: int | None
) -> float:
    """Returns the rate that theory gives from public bounds only.

    Raises:
        ConfigError: the public size is missing, or is no whole number.
    """
    if public_size is None:
        raise ConfigError(
            "public_size",
            "public_size must be given for a learning rate from public bounds, because "
            "with add_or_remove_one the number of rows is private too. Set "
            'public_size, or set learning_rate to "released" or a number.',
        )
    size = checks.whole("public_size", public_size, 10**12)
    noise, steps = schedule
    std = noise * float(bounds.gradient_sensitivity(TYPICAL_NORM))
    largest = 1 / (size * bounds.x_bound**2)
    noisy = bounds.y_bound / (bounds.x_bound * std * math.sqrt(dim * steps))
    return min(largest, noisy)


def notebook_rate(
    statistics: Statistics, bounds: Bounds, schedule: tuple[float, int]
) -> float:
    """Returns the notebook's rate; it uses the data and is not private."""
    smoothness = np.array(statistics.lambda_max)
    return float(_rate_at(smoothness, statistics.dim, bounds, schedule))


def released_rates(
    statistics: Statistics,
    bounds: Bounds,
    schedule: tuple[float, int],
    rng: Any,
    repetitions: int,
) -> Array:
    """Returns the rate of each descent from its own release of the largest eigenvalue.

    Shapes: -> [R].

    Args:
        statistics: Statistics of records within the bounds.
        bounds: Public bounds of the records.
        schedule: Noise multiplier and number of the steps.
        rng: Generator with ``standard_normal(shape)``.
        repetitions: Number R of releases.
    """
    sensitivity = bounds.lambda_max_sensitivity
    std = sensitivity * rate_noise(*schedule)
    noise = std * (rng.standard_normal(repetitions) + UPPER_DEVIATIONS)
    upper = statistics.lambda_max + noise
    # A single row of norm B has l = B^2: a smaller bound is useless, or negative.
    return _rate_at(np.maximum(upper, sensitivity), statistics.dim, bounds, schedule)


def _rate_at(
    smoothness: Array, dim: int, bounds: Bounds, schedule: tuple[float, int]
) -> Array:
    """Returns the notebook's rate at an eigenvalue.

    Shapes: smoothness [...] -> [...].
    """
    noise, steps = schedule
    std = noise * float(bounds.gradient_sensitivity(TYPICAL_NORM))
    scale = dim * std * smoothness * steps
    return np.minimum(1 / smoothness, NOTEBOOK_NUMERATOR / np.sqrt(scale))

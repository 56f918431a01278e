"""Recording of the errors of many releases of each method on California housing.

    python -m dpsgd_explorer.web.hub.widgets.regression_errors.record

Writes ``recorded.json`` into this folder: for each method and ε the median and the 10%
and 90% quantiles of the mean squared error.  The errors are computed from the data, so
they are not private.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from dpsgd_explorer.experiments.california_housing.descents import DescentSpec
from dpsgd_explorer.regression.checks import Array
from dpsgd_explorer.regression.comparison import EPSILONS, sweep
from dpsgd_explorer.regression.spending import steps_within
from dpsgd_explorer.web.hub.widgets.regression_errors.widget import REPETITIONS
from dpsgd_explorer.web.labs.regression.question import METHODS, RegressionQuestion
from dpsgd_explorer.web.labs.regression.results import REGIMES
from tools.record.files import versions, write

QUANTILES = (0.1, 0.5, 0.9)
DIGITS = 6  # significant digits
SEED = 0


def main() -> int:
    """Computes all errors and writes the file."""
    question = RegressionQuestion(epsilon=EPSILONS[0])
    errors = {name: released(name, question) for name in METHODS}
    errors |= {name: descended(noise, question) for name, noise in REGIMES.items()}
    stored = {
        "repetitions": REPETITIONS,
        "epsilons": EPSILONS,
        "delta": question.delta,
        "methods": {name: summary(values) for name, values in errors.items()},
        **versions(),
    }
    write("recorded", stored, folder=Path(__file__).parent)
    return 0


def released(name: str, question: RegressionQuestion) -> Array:
    """Returns the errors of SSP or AdaSSP at each ε, (E, R)."""
    housing = question.prepared_housing
    return sweep(
        question.perturbation(name),
        housing.statistics,
        EPSILONS,
        question.delta,
        np.random.default_rng(SEED),
        REPETITIONS,
        evaluate_on=housing.evaluation_set,
    ).mse


def descended(noise: float, question: RegressionQuestion) -> Array:
    """Returns the errors of descents at the last step within each ε, (E, R)."""
    housing, delta = question.prepared_housing, question.delta
    ends = [steps_within(epsilon, noise, delta) for epsilon in EPSILONS]
    descent = DescentSpec(noise_multiplier=noise, steps=ends[-1]).descent
    rng, statistics = np.random.default_rng(SEED), housing.statistics
    rates = descent.draw_rates(statistics, rng, REPETITIONS)
    theta = np.zeros((REPETITIONS, statistics.dim))
    errors = []
    for begin, end in zip((0, *ends), ends, strict=False):
        theta = descent.advance(statistics, theta, rates, end - begin, rng)
        errors.append(housing.evaluation_set.mse_of(theta))
    return np.array(errors)


def summary(errors: Array) -> dict[str, list[float]]:
    """Returns the quantiles at each ε by name; (E, R) -> E numbers each."""
    low, median, high = np.quantile(errors, QUANTILES, axis=1)
    named = {"low": low, "median": median, "high": high}
    return {
        name: [float(f"{value:.{DIGITS}g}") for value in values]
        for name, values in named.items()
    }


if __name__ == "__main__":
    sys.exit(main())

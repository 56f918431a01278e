"""A comparison of all methods: error against epsilon, with repetitions.

The errors are computed from the data and are not private; a comparison is an
experiment about the methods, not a release.  It reports medians and quantiles: the
error of SSP has no useful mean, because a noisy X'X is nearly singular now and then.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dpsgd_explorer.accounting.core import validation as domains
from dpsgd_explorer.regression import checks
from dpsgd_explorer.regression.bounds import Bounds
from dpsgd_explorer.regression.budget import Budget
from dpsgd_explorer.regression.checks import Array
from dpsgd_explorer.regression.noisy_gd import Descent, Path
from dpsgd_explorer.regression.perturbation import METHODS, Perturbation
from dpsgd_explorer.regression.rates import RELEASED, resolve_rate
from dpsgd_explorer.regression.spending import steps_within
from dpsgd_explorer.regression.statistics import Statistics

#: Default budgets ε.
EPSILONS = tuple(float(e) for e in np.linspace(0.1, 2.0, 50))
#: Noise multipliers of the two descents of the notebook.
LARGE_NOISE, SMALL_NOISE = 500.0, 50.0
#: Largest number of steps of the descents with other learning rates.
MAX_RATE_STEPS = 50_000
#: Quantiles that end the band of repetitions.
BAND = (0.05, 0.95)


@dataclass(frozen=True)
class Spread:
    """Median and 5% to 95% band of repetitions."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Array) -> Spread:
        """Returns the spread of [R] values; infinite values count as the largest."""
        return cls.of_each(values[None])[0]

    @classmethod
    def of_each(cls, values: Array) -> tuple[Spread, ...]:
        """Returns the spread of each row of [E, R] values."""
        ordered = np.sort(values, axis=1)
        count = values.shape[1]
        low, high = (ordered[:, math.ceil(share * count) - 1] for share in BAND)
        middle = np.median(ordered, axis=1)
        rows = zip(middle.tolist(), low.tolist(), high.tolist(), strict=True)
        return tuple(cls(*row) for row in rows)


@dataclass(frozen=True, eq=False)
class Sweep:
    """One method at several budgets.

    Shapes: mse [E, R].
    """

    method: Perturbation
    budgets: tuple[Budget, ...]
    mse: Array

    @cached_property
    def spreads(self) -> tuple[Spread, ...]:
        """Spread of the error at each budget."""
        return Spread.of_each(self.mse)


@dataclass(frozen=True, eq=False)
class Comparison:
    """Errors of all methods on one table, with repetitions.

    Attributes:
        statistics: Statistics of the data; mse and trivial_mse are the two baselines.
        sweeps: SSP and AdaSSP by name.
        paths: Noisy gradient descents: "large_noise" and "small_noise" up to the
            largest epsilon, and "large_noise" with ten times and with a tenth of its
            learning rate, "rate_x10" and "rate_div10".
    """

    statistics: Statistics
    sweeps: dict[str, Sweep]
    paths: dict[str, Path]

    def __repr__(self) -> str:
        budgets, repetitions = next(iter(self.sweeps.values())).mse.shape
        return (
            f"Comparison({self.statistics.n} records, {budgets} budgets, "
            f"{len(self.paths)} descents, {repetitions} repetitions)"
        )


def compare(
    X: Any,
    y: Any,
    *,
    delta: float,
    y_bound: float,
    x_bound: float = 1.0,
    epsilons: Sequence[float] = EPSILONS,
    repetitions: int = 20,
    variant: str = "tight",
    learning_rate: float | str = "public",
    rng: Any = None,
    neighboring_relation: str = "add_or_remove_one",
) -> Comparison:
    """Returns the errors of all methods on one table; the errors are not private.

    Source: Wang (2018), arXiv:1803.02596, on SSP and AdaSSP; Song, Chaudhuri and
    Sarwate (2013) on noisy gradient descent.

    Args:
        X: Rows ``(n, d)`` of L2 norm at most ``x_bound``.
        y: Labels ``(n,)`` of size at most ``y_bound``.
        delta: δ, above 0 and below 1.
        y_bound: Largest absolute label; public, as in ``ssp``.
        x_bound: Largest norm of a row; public, as in ``ssp``.
        epsilons: Budgets ε of SSP and AdaSSP; descents spend the largest.
        repetitions: Number of releases of each method at each budget.
        variant: "tight" or "notebook".
        learning_rate: A number, "public", "released" or "notebook", as in
            noisy_gradient_descent; n counts as public here.
        rng: A numpy Generator, as in ``ssp``.
        neighboring_relation: "add_or_remove_one" or "replace_one".

    Returns:
        Mean squared errors, in squared units of the labels.

    Raises:
        ConfigError: An argument is outside its domain; a row beyond its bound is named.
        AccountingError: epsilon or delta is outside its domain.
        DivergedError: A noisy X'X has no inverse.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(-0.5, 0.5, size=(1000, 3))
        >>> y = X @ [0.5, -0.2, 0.1]
        >>> comparison = compare(
        ...     X, y, delta=1e-6, y_bound=1.0, epsilons=[0.5, 2], repetitions=9, rng=rng
        ... )
        >>> comparison
        Comparison(1000 records, 2 budgets, 4 descents, 9 repetitions)
        >>> low, high = comparison.sweeps["ssp"].spreads  # one for each budget
        >>> low.median > high.median
        True
    """
    features, labels = checks.table(X, y)
    bounds = Bounds(x_bound, y_bound, neighboring_relation)
    bounds.check(features, labels)
    count = checks.whole("repetitions", repetitions, checks.MAX_REPETITIONS)
    budgets = [checks.positive("epsilons", epsilon) for epsilon in epsilons]
    if not budgets:
        checks.refuse(
            "epsilons", "epsilons must contain at least one budget, got none."
        )
    delta, rate = domains.delta(delta), checks.rate(learning_rate)
    rng = checks.generator(rng)
    statistics = Statistics.of(features, labels)
    methods = {
        name: Perturbation(method=name, bounds=bounds, variant=variant)
        for name in METHODS
    }
    return Comparison(
        statistics,
        {
            name: sweep(method, statistics, budgets, delta, rng, count)
            for name, method in methods.items()
        },
        {
            name: descent.run(
                statistics, rng, count, rate_is_private=rate != "notebook"
            )
            for name, descent in _descents(
                statistics, bounds, rate, (max(budgets), delta)
            ).items()
        },
    )


def sweep(
    method: Perturbation,
    statistics: Statistics,
    epsilons: Sequence[float],
    delta: float,
    rng: Any,
    repetitions: int,
    *,
    evaluate_on: Statistics | None = None,
) -> Sweep:
    """Returns the errors of independent releases at each budget.

    Args:
        method: Released method.
        statistics: Statistics of the data.
        epsilons: Budgets.
        delta: In (0, 1).
        rng: A numpy Generator.
        repetitions: Number R of releases at each budget.
        evaluate_on: Statistics of the evaluation set; None means ``statistics``.
    """
    evaluation_set = evaluate_on or statistics
    budgets = tuple(method.budget(epsilon, delta) for epsilon in epsilons)
    mse = [
        evaluation_set.mse_of(method.release(statistics, budget, rng, repetitions))
        for budget in budgets
    ]
    return Sweep(method, budgets, np.array(mse))


def _descents(
    statistics: Statistics,
    bounds: Bounds,
    rate: float | str | None,
    price: tuple[float, float],
) -> dict[str, Descent]:
    """Returns the notebook's four descents."""
    epsilon, delta = price

    def descent(noise: float, steps: int, factor: float = 1.0) -> Descent:
        eta = resolve_rate(rate, statistics, bounds, (noise, steps), statistics.n)
        return Descent(
            bounds=bounds,
            noise_multiplier=noise,
            steps=steps,
            learning_rate=eta,
            delta=delta,
            rate_factor=factor,
        )

    large, small = (
        steps_within(epsilon, noise, delta, rate == RELEASED)
        for noise in (LARGE_NOISE, SMALL_NOISE)
    )
    return {
        "large_noise": descent(LARGE_NOISE, large),
        "small_noise": descent(SMALL_NOISE, small),
        "rate_x10": descent(LARGE_NOISE, min(large, MAX_RATE_STEPS), 10.0),
        "rate_div10": descent(LARGE_NOISE, min(large, MAX_RATE_STEPS), 0.1),
    }

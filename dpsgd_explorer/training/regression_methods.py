"""Linear regression by several private methods on one table, as a run.

A row becomes one record: a constant and each number, mapped to [-1, 1] by its stated
bounds, and one column per value of a category but the first.  All are divided by the
square root of the number of columns, so that the norm of a record is at most 1.  The
target is mapped to [-1, 1] by its bounds.  Each step releases the coefficients of one
method.
"""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import numpy as np

from dpsgd_explorer.audit.receipts.layout import VERSION
from dpsgd_explorer.experiments.california_housing import housing
from dpsgd_explorer.experiments.events import Event
from dpsgd_explorer.experiments.experiment import Experiment
from dpsgd_explorer.experiments.own_csv import (
    content_of,
    from_current_folder,
    is_for_testing,
    rows_of,
    within,
)
from dpsgd_explorer.experiments.own_table import CATEGORY, NUMBER, OwnTable
from dpsgd_explorer.experiments.regression_methods_config import RegressionMethodsConfig
from dpsgd_explorer.regression.checks import Array
from dpsgd_explorer.regression.noisy_gd import Descent
from dpsgd_explorer.regression.perturbation import Perturbation
from dpsgd_explorer.regression.rates import RELEASED
from dpsgd_explorer.regression.shared_budget import Share, epsilon_of
from dpsgd_explorer.regression.statistics import Statistics


class RegressionMethods(Experiment):
    """One comparison of methods and its state; see ``Experiment``."""

    config: RegressionMethodsConfig

    def _prepare(self) -> None:
        schema = self.config.table_schema
        x, y, self._tests, self._targets = records(schema, self._content())
        self._sizes = len(x), len(self._tests)
        self._statistics = Statistics.of(x, y)
        self._mean = float(np.mean(y))
        self._errors: list[float | None] = []

    def _content(self) -> bytes:
        """Returns the file of the table."""
        if self.config.table is None:
            return housing.content(housing.PATH)
        read = self._performance.read_table or from_current_folder
        return content_of(self.config.table, read)

    def _state(self) -> dict[str, Any]:
        return {"errors": self._errors}  # noise follows from seed and method

    def _load_state(self, state: dict[str, Any]) -> None:
        self._errors = state["errors"]

    def _advance(self) -> None:
        """Releases the next method and emits its events."""
        share = self.config.budget.shares[self._step]
        rng = np.random.default_rng((self.config.seed, self._step))
        theta = self._released(share, rng)
        self._step += 1
        self._errors.append(self._rmse(self._tests @ theta))
        self._emit("step", diagnostics={})
        self._emit(
            "evaluation",
            method=share.method,
            epsilon_alone=share.epsilon,
            not_private_rmse=self._errors[-1],
            coefficients=coefficients(self.config.table_schema, theta),
        )
        if self._step == self.config.planned_steps:
            self._emit(
                "end",
                delta=self.config.delta,
                not_private_rmse=self._errors[-1],
                reason="finished",
                receipt=self._receipt(),
            )
            self._ended = True

    def _released(self, share: Share, rng: Any) -> Array:
        """Returns the released coefficients of the prepared columns, [d]."""
        config, statistics = self.config, self._statistics
        if share.budget is not None:
            method = Perturbation(method=share.method, bounds=config.bounds)
            theta: Array = method.release(statistics, share.budget, rng)[0]
            return theta
        gradients = share.mechanisms[-1]
        descent = Descent(
            bounds=config.bounds,
            noise_multiplier=gradients.noise_multiplier,
            steps=gradients.times,
            learning_rate=RELEASED,
            delta=config.delta,
        )
        theta = descent.run(statistics, rng, 1).theta[0]
        return theta

    def _rmse(self, predictions: Array) -> float | None:
        """Returns the typical error on the test rows, in units of the target.

        Predictions are moved into the stated bounds.  None if they are not numbers.
        """
        errors = np.clip(predictions, -1, 1) - self._targets
        unit = half_width(self.config.table_schema)
        rmse = unit * math.sqrt(float(np.mean(errors**2)))
        return rmse if math.isfinite(rmse) else None

    def _epsilon(self) -> float | None:
        done = self.config.budget.shares[: self._step]
        if len(done) == self.config.planned_steps:
            return self.config.budget.epsilon
        mechanisms = [one for share in done for one in share.mechanisms]
        return epsilon_of(mechanisms, self.config.delta) if mechanisms else 0.0

    def _phase(self) -> Event:
        config, statistics = self.config, self._statistics
        return Event(
            "phase",
            {
                "step": 0,
                "sample_rate": 1.0,
                "noise_multiplier": None,
                "steps": config.planned_steps,
                "sample_size": self._sizes[0],
                "test_size": self._sizes[1],
                "delta": config.delta,
                "neighboring_relation": config.bounds.neighboring_relation,
                "status": "exact",
                "private": True,
                "not_private_rmse": self._rmse(self._tests @ statistics.theta),
                "not_private_coefficients": coefficients(
                    config.table_schema, statistics.theta
                ),
                "not_private_mean_rmse": self._rmse(
                    np.full(len(self._targets), self._mean)
                ),
            },
        )

    def _receipt(self) -> dict[str, Any]:
        """Returns the noise of every release, with the ε that follows from it."""
        config, budget = self.config, self.config.budget
        return {
            "version": VERSION,
            "releases": [
                {
                    "method": share.method,
                    "epsilon_alone": share.epsilon,
                    "mechanisms": [asdict(one) for one in share.mechanisms],
                }
                for share in budget.shares
            ],
            "target_epsilon": config.target_epsilon,
            "epsilon": budget.epsilon,
            "delta": budget.delta,
            "neighboring_relation": config.bounds.neighboring_relation,
            "x_bound": config.bounds.x_bound,
            "y_bound": config.bounds.y_bound,
            "seed": config.seed,
        }


def records(schema: OwnTable, content: bytes) -> tuple[Array, Array, Array, Array]:
    """Returns training rows and targets, then test rows and targets.

    Shapes: rows [n, d] of norm at most 1, targets [n] in [-1, 1]; d is the ``inputs``
    of the settings.

    Args:
        schema: Stated columns of the table.
        content: The file.

    Raises:
        ConfigError: a row of the file has the wrong number of cells.
    """
    rows: tuple[list[list[float]], list[list[float]]] = ([], [])
    targets: tuple[list[float], list[float]] = ([], [])
    for row in rows_of(content, len(schema.columns)):
        part, record = is_for_testing(row), [1.0]
        for column, cell in zip(schema.columns, row, strict=True):
            if column.kind == NUMBER:
                record.append(within(column, cell))
            elif column.kind == CATEGORY:
                record += [float(cell == value) for value in column.values[1:]]
            elif column == schema.predicted:
                targets[part].append(within(column, cell))
        rows[part].append(record)
    train, test = (np.array(part) * input_scale(schema) for part in rows)
    return train, np.array(targets[0]), test, np.array(targets[1])


def input_scale(schema: OwnTable) -> float:
    """Returns the factor of every input: the constant counts as a column."""
    return 1 / math.sqrt(1 + len(schema.features))


def half_width(schema: OwnTable) -> float:
    """Returns half the distance of the target's bounds, in units of the target."""
    low, high = bounds_of(schema)
    return (high - low) / 2


def bounds_of(schema: OwnTable) -> tuple[float, float]:
    """Returns the stated bounds of the target."""
    low, high = schema.predicted.low, schema.predicted.high
    assert low is not None, "a number has bounds"
    assert high is not None, "a number has bounds"
    return low, high


def coefficients(schema: OwnTable, theta: Array) -> dict[str, Any] | None:
    """Returns coefficients in the units of the table; None if one is not finite.

    The prediction is ``intercept`` plus, for every name of ``slopes``, the slope times
    the number, or the slope of the row's category.

    Args:
        schema: Stated columns of the table.
        theta: Coefficients of the prepared columns, ``(d,)``.
    """
    if not np.isfinite(theta).all():
        return None
    scaled = iter((theta * half_width(schema) * input_scale(schema)).tolist())
    intercept = sum(bounds_of(schema)) / 2 + next(scaled)
    slopes: dict[str, float] = {}
    for column in schema.features:
        if column.kind == NUMBER:
            assert column.low is not None, "a number has bounds"
            assert column.high is not None, "a number has bounds"
            slope = 2 * next(scaled) / (column.high - column.low)
            slopes[column.name] = slope
            intercept -= slope * (column.high + column.low) / 2
        else:
            for value in column.values[1:]:
                slopes[f"{column.name} = {value}"] = next(scaled)
    return {"intercept": intercept, "slopes": slopes}

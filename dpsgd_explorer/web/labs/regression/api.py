"""Comparison of private linear regressions, as JSON."""

from __future__ import annotations

from typing import Literal

from flask import Blueprint
from pydantic import BaseModel

from dpsgd_explorer.regression.comparison import EPSILONS, Spread
from dpsgd_explorer.web.api.operation import operation
from dpsgd_explorer.web.labs.regression.question import METHODS, RegressionQuestion
from dpsgd_explorer.web.labs.regression.results import REGIMES, Followed, View
from dpsgd_explorer.web.questions.privacy import finite

bp = Blueprint("regression_api", __name__, url_prefix="/api/v1/regression")


class Band(BaseModel):
    """Errors at each point of an axis; null for infinite errors. Not private."""

    median: list[float | None]
    low: list[float | None]
    high: list[float | None]

    @classmethod
    def of(cls, spreads: tuple[Spread, ...]) -> Band:
        """Return spreads as columns."""
        return cls(
            median=[finite(spread.median) for spread in spreads],
            low=[finite(spread.low) for spread in spreads],
            high=[finite(spread.high) for spread in spreads],
        )


class Released(BaseModel):
    """One noisy statistic and its share of the budget."""

    name: str
    share: float
    noise_multiplier: float
    sensitivity: float


class Descent(BaseModel):
    """Noisy gradient descent with its ε along the steps."""

    steps: list[int]
    epsilons: list[float]
    mse: Band
    noise_multiplier: float
    epsilon: float
    learning_rate: float
    learning_rate_is_private: bool
    rate_noise_multiplier: float | None
    repetitions: int

    @classmethod
    def of(cls, followed: Followed) -> Descent:
        """Return a descent with its errors."""
        spec = followed.spec
        return cls(
            steps=list(followed.steps),
            epsilons=list(followed.epsilons),
            mse=Band.of(followed.spreads),
            noise_multiplier=spec.noise_multiplier,
            epsilon=followed.epsilons[-1],
            learning_rate=spec.learning_rate,
            learning_rate_is_private=spec.rate != "notebook",
            rate_noise_multiplier=spec.descent.rate_noise_multiplier,
            repetitions=spec.repetitions,
        )


class ComparisonAnswer(BaseModel):
    """Errors of all methods on California housing, with the terms of each ε.

    Errors, baselines and coefficients of the cloud's center are computed from the data
    and are not private.
    """

    delta: float
    neighboring_relation: str
    status: Literal["exact"] = "exact"
    nonprivate_mse: float
    bounded_mse: float
    trivial_mse: float
    epsilons: list[float]
    mse: dict[str, Band]
    epsilon: float
    epsilon_spent: float
    released: list[Released]
    coefficients: list[list[float]]
    nonprivate_coefficients: list[float]
    descent: Descent


class RegimesAnswer(BaseModel):
    """The notebook's two regimes of noisy gradient descent, both up to ε = 2.

    Errors are computed from the data and are not private.
    """

    delta: float
    neighboring_relation: str
    status: Literal["exact", "not private"]
    regimes: dict[str, Descent]


@operation(bp, "GET", "/regimes", errors=(429,))
def regimes(query: RegressionQuestion) -> RegimesAnswer:
    """Returns the errors of two settings of noisy gradient descent.

    One takes many steps with much noise, the other few steps with little noise, both
    within ε = 2. The errors are computed from the data and are not private.
    """
    found = View(query, waits=REGIMES).regimes
    return RegimesAnswer(
        delta=query.delta,
        neighboring_relation=query.neighboring_relation,
        status="not private" if query.chosen_rate == "notebook" else "exact",
        regimes={name: Descent.of(followed) for name, followed in found.items()},
    )


@operation(bp, "GET", "/comparison", errors=(429,))
def comparison(query: RegressionQuestion) -> ComparisonAnswer:
    """Returns the errors of SSP, AdaSSP and noisy gradient descent.

    The methods predict California housing prices. The errors are computed from the data
    and are not private.
    """
    view = View(query, waits=("",))
    budget = view.budget
    return ComparisonAnswer(
        delta=query.delta,
        neighboring_relation=query.neighboring_relation,
        nonprivate_mse=view.evaluation_set.mse,
        bounded_mse=view.clipped_mse,
        trivial_mse=view.evaluation_set.trivial_mse,
        epsilons=list(EPSILONS),
        mse={name: Band.of(view.sweeps[name].spreads) for name in METHODS},
        epsilon=query.epsilon,
        epsilon_spent=budget.epsilon,
        released=[
            Released(
                name=part.name,
                share=budget.shares[part.name],
                noise_multiplier=budget.noise_multipliers[part.name],
                sensitivity=part.sensitivity,
            )
            for part in budget.parts
        ],
        coefficients=view.cloud.tolist(),
        nonprivate_coefficients=view.evaluation_set.theta[view.columns].tolist(),
        descent=Descent.of(view.followed[""]),
    )

"""Settings of a run that releases a linear regression by several methods.

The default data set is California housing; on the site, a visitor's own table can be
chosen instead.  All methods together spend ``target_epsilon``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from dpsgd_explorer.accounting.core.validation import MIN_DELTA
from dpsgd_explorer.errors import AccountingError, ConfigError
from dpsgd_explorer.experiments.california_housing import housing
from dpsgd_explorer.experiments.catalogue import DATA_SETS
from dpsgd_explorer.experiments.config import KIND_HELP, RunConfig
from dpsgd_explorer.experiments.fields.setting import check_choices
from dpsgd_explorer.experiments.own_table import (
    CATEGORY,
    NUMBER,
    TARGET,
    Column,
    OwnTable,
    check_named,
    with_table,
)
from dpsgd_explorer.experiments.vocabulary import setting
from dpsgd_explorer.regression.bounds import Bounds
from dpsgd_explorer.regression.shared_budget import (
    NOISY_GD,
    SharedBudget,
    share_budget,
)

#: Names of the methods in tables and forms.
METHOD_NAMES = {"adassp": "AdaSSP", "ssp": "SSP", NOISY_GD: "NoisyGD"}
ALL = "all"
DEFAULT_EPSILON = 2.0
LEAST_EPSILON, MOST_EPSILON = 0.01, 100.0
MOST_DESCENT_STEPS = 10_000
# Cost of a method and of a step of NoisyGD per squared input, in multiply-adds of a
# training run.
METHOD_COST = 1_000_000
# Round numbers known without the records, as the units and the map suggest them.
HOUSING_BOUNDS = {
    "MedInc": (0, 15),
    "HouseAge": (0, 52),
    "AveRooms": (0, 20),
    "AveBedrms": (0, 5),
    "Population": (0, 5000),
    "AveOccup": (0, 10),
    "Latitude": (32, 42),
    "Longitude": (-125, -114),
    housing.LABEL: (0, 5),
}
#: California housing as a table with stated bounds; a test counts its rows.
HOUSING = OwnTable(
    sha256=housing.SHA256,
    columns=tuple(
        Column(
            name=name,
            kind=TARGET if name == housing.LABEL else NUMBER,
            low=low,
            high=high,
        )
        for name, (low, high) in HOUSING_BOUNDS.items()
    ),
    train_size=16_556,
    test_size=4_084,
)


class RegressionMethodsConfig(RunConfig):
    """Settings of one comparison of methods; every instance is valid."""

    TO_COST_LESS: ClassVar[str] = "fewer steps"

    kind: Literal["regression_methods"] = Field(
        "regression_methods", description=KIND_HELP
    )
    dataset: str = setting(
        "dataset",
        "housing",
        group="Data",
        help="Table with a number to predict: California housing, or an own table.",
        choices={"housing": DATA_SETS["housing"].label},
    )
    table: OwnTable | None = Field(
        None,
        title="Own table",
        description="Schema of your own table, if dataset is the name of one.",
        json_schema_extra={"domain": "set by the site from the tables of its visitor"},
    )
    methods: str = setting("methods", ALL, group="Methods")
    target_epsilon: float = setting(
        "target_epsilon",
        DEFAULT_EPSILON,
        group="Privacy",
        slider=False,
        help="Privacy loss ε of all released coefficients together. Several methods "
        "share it equally, so each of them has more noise than it would have alone.",
        ge=LEAST_EPSILON,
        le=MOST_EPSILON,
    )
    delta: float = setting("delta", 1e-6, group="Privacy", slider=False, ge=MIN_DELTA)
    steps: int = setting(
        "steps",
        100,
        group="Methods",
        slider=False,
        help="Number of steps of NoisyGD.",
        ge=1,
        le=MOST_DESCENT_STEPS,
    )
    seed: int = setting("seed", 0, group="Methods", slider=False)

    @model_validator(mode="before")
    @classmethod
    def _find_table(cls, values: Any) -> Any:
        return with_table(values) if isinstance(values, Mapping) else values

    def _check_choices(self) -> None:
        choices = {} if self.table is None else {"dataset": self.table.name}
        check_choices(self, **choices)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        check_named(self.dataset, self.table)
        predicted = self.table_schema.predicted
        if not self.table_schema.is_regression:
            raise ConfigError(
                "dataset",
                f"dataset {self.dataset!r} must have a number to predict, but it has "
                f"classes, {predicted.name!r}. Train a classifier on it, or describe "
                "the columns again.",
            )
        if self.delta >= 1 / self.table_schema.train_size:
            raise ConfigError(
                "delta",
                f"delta must be below 1/N = 1/{self.table_schema.train_size}, got "
                f"{self.delta:g}.",
            )
        try:
            self.budget  # noqa: B018  raises if no noise reaches the target
        except AccountingError as error:
            field = (error.field or "").replace("epsilon", "target_epsilon")
            raise ConfigError(field or "target_epsilon", str(error)) from error
        return self

    @property
    def table_schema(self) -> OwnTable:
        """Columns and sizes of the table."""
        return self.table or HOUSING

    @property
    def own_table(self) -> OwnTable | None:
        """The visitor's table that the run reads."""
        return self.table

    @property
    def released(self) -> tuple[str, ...]:
        """Names of the released methods, in order."""
        return tuple(METHOD_NAMES) if self.methods == ALL else (self.methods,)

    @property
    def bounds(self) -> Bounds:
        """Public bounds of the prepared records."""
        return Bounds(x_bound=1.0, y_bound=1.0)

    @cached_property
    def budget(self) -> SharedBudget:
        """Noise of every method, and ε of all together, at most the target."""
        return share_budget(
            self.released,
            self.bounds,
            epsilon=self.target_epsilon,
            delta=self.delta,
            steps=self.steps,
        )

    @property
    def inputs(self) -> int:
        """Number of coefficients: the intercept, and those of the columns."""
        return 1 + sum(
            len(column.values) - 1 if column.kind == CATEGORY else column.inputs
            for column in self.table_schema.features
        )

    @property
    def planned_steps(self) -> int:
        """Number of released methods."""
        return len(self.released)

    @property
    def length_setting(self) -> str:
        """Name of the setting that determines the length of the run."""
        return "steps"

    @property
    def cost(self) -> float:
        """Cost of reading the rows and of all releases, in multiply-adds."""
        rows = self.table_schema.train_size + self.table_schema.test_size
        descent = self.steps * (NOISY_GD in self.released)
        work = rows + self.planned_steps * self.inputs + descent
        return float(METHOD_COST + work * self.inputs**2)

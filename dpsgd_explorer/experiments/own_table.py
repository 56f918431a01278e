"""The stated schema of a visitor's own table; loads no torch and reads no file.

The visitor states the bounds, categories and classes of the columns; they are never
computed from the data, so they cost no privacy.  A row becomes one record: a number is
mapped to [-1, 1] by its bounds, a category becomes one column per stated value.  All
inputs are divided by the square root of the number of columns, so that the norm of a
record is at most 1.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments.catalogue import DATA_SETS, DataSet

PREFIX = "own-"
MODELS = ("logistic", "mlp")
NUMBER, CATEGORY, LABEL, IGNORED = "number", "category", "label", "ignored"
TARGET = "target"  # number that a regression predicts
NUMBERS = (NUMBER, TARGET)
#: Contents of a column in words.
COLUMN_KINDS = {
    IGNORED: "leave out",
    NUMBER: "number",
    CATEGORY: "category",
    LABEL: "label (to predict)",
    TARGET: "number to predict",
}
MOST_COLUMNS, MOST_VALUES, MOST_CLASSES = 60, 50, 20
MOST_INPUTS = 500
LONGEST_NAME = 80
LARGEST_NUMBER = 1e12
FEWEST = 10  # minimum number of training records, and of test records


class Column(BaseModel):
    """The content of one column, as its owner states it.

    Attributes:
        name: Name in the first row of the file.
        kind: Number within bounds, category, class label to predict, number to
            predict ("target"), or ignored column.
        low, high: Bounds of a number; values beyond a bound are moved to it.
        values: Categories, or the classes of the label.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    name: str = Field(min_length=1, max_length=LONGEST_NAME)
    kind: Literal["number", "category", "label", "target", "ignored"]
    low: float | None = Field(None, ge=-LARGEST_NUMBER, le=LARGEST_NUMBER)
    high: float | None = Field(None, ge=-LARGEST_NUMBER, le=LARGEST_NUMBER)
    values: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Self:
        has_bounds = self.low is not None and self.high is not None
        if self.kind in NUMBERS and not (has_bounds and self._bounds_ascend()):
            raise ConfigError(
                "table",
                f"table: column {self.name!r} is a number and needs two bounds, the "
                f"lower first, got {self.low} and {self.high}.",
            )
        maximum = MOST_CLASSES if self.kind == LABEL else MOST_VALUES
        number = len(self.values)
        is_valid_list = 2 <= number <= maximum and len(set(self.values)) == number
        if self.kind in (CATEGORY, LABEL) and not is_valid_list:
            raise ConfigError(
                "table",
                f"table: column {self.name!r} needs 2 to {maximum} different values, "
                f"got {number}: {', '.join(self.values[:5])}.",
            )
        return self

    def _bounds_ascend(self) -> bool:
        assert self.low is not None, "both are given"
        assert self.high is not None, "both are given"
        return self.low < self.high

    @property
    def inputs(self) -> int:
        """Number of inputs of the model for this column."""
        return {NUMBER: 1, CATEGORY: len(self.values)}.get(self.kind, 0)


class OwnTable(BaseModel):
    """A visitor's own table: hash of its file, columns and sizes.

    Attributes:
        sha256: Hash of the file.
        columns: Columns in the order of the file; one of them is predicted, a label
            or a target.
        train_size: Number of training rows, N.
        test_size: Number of test rows.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    columns: tuple[Column, ...] = Field(min_length=2, max_length=MOST_COLUMNS)
    train_size: int = Field(ge=FEWEST, le=10**6)
    test_size: int = Field(ge=FEWEST, le=10**6)

    @model_validator(mode="after")
    def _has_one_task(self) -> Self:
        check_columns(self.columns)
        return self

    @property
    def name(self) -> str:
        """Name of the table as a data set, a hash of its file and its columns."""
        digest = hashlib.sha256(self.model_dump_json().encode()).hexdigest()
        return PREFIX + digest[:24]

    @property
    def predicted(self) -> Column:
        """The column that is predicted: the label of a class, or a number."""
        return next(c for c in self.columns if c.kind in (LABEL, TARGET))

    @property
    def is_regression(self) -> bool:
        """If True, the predicted column is a number."""
        return self.predicted.kind == TARGET

    @property
    def title(self) -> str:
        """Display name of the table as a data set."""
        return f"Own table, {self.predicted.name}"

    @property
    def features(self) -> tuple[Column, ...]:
        """The columns that the model reads."""
        return tuple(column for column in self.columns if column.inputs)

    @property
    def scale(self) -> float:
        """Factor of every input, which limits the norm of a record to 1."""
        return 1 / math.sqrt(len(self.features))

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Name of each input, such as "age" or "colour = red"."""
        return tuple(
            name
            for column in self.features
            for name in (
                [column.name]
                if column.kind == NUMBER
                else [f"{column.name} = {value}" for value in column.values]
            )
        )

    @property
    def facts(self) -> DataSet:
        """Public facts of a table with classes; guessing has accuracy 1 / classes."""
        label = self.predicted
        classes = len(label.values)
        return DataSet(
            label=self.title,
            train_size=self.train_size,
            test_size=self.test_size,
            input_shape=(sum(column.inputs for column in self.features),),
            classes=classes,
            class_names=label.values,
            majority=1 / classes,
            note="Your own table. Its test figures are not private.",
        )


def check_columns(columns: tuple[Column, ...]) -> None:
    """Reject columns that do not form a task.

    Raises:
        ConfigError: a name is repeated, the number of predicted columns is not one, or
            there are no inputs or too many.
    """
    names = [column.name for column in columns]
    predicted = [column for column in columns if column.kind in (LABEL, TARGET)]
    inputs = sum(column.inputs for column in columns)
    if len(set(names)) < len(names):
        problem = "each name must be there once"
    elif len(predicted) != 1:
        problem = (
            "one column must be the label or the number to predict, got "
            f"{len(predicted)} of them"
        )
    elif not 1 <= inputs <= MOST_INPUTS:
        problem = (
            "at least one other column must be a number or a category, and all of "
            f"them make at most {MOST_INPUTS} inputs, got {inputs}"
        )
    else:
        return
    raise ConfigError("table", f"table: {problem}.")


#: Finds a table of the current visitor by name.
Lookup = Callable[[str], OwnTable | None]
lookup: ContextVar[Lookup | None] = ContextVar("lookup", default=None)


def label_of(config: Mapping[str, Any]) -> str:
    """Return the display name of the data set of a stored run."""
    dataset = config["dataset"]
    if dataset in DATA_SETS:
        return DATA_SETS[dataset].label
    return OwnTable.model_validate(config["table"]).title


def is_own(dataset: object) -> bool:
    """Return whether a data set's name is that of a visitor's own table."""
    return isinstance(dataset, str) and dataset.startswith(PREFIX)


def find(dataset: str) -> OwnTable:
    """Return the current visitor's table with this name.

    Raises:
        ConfigError: no table has this name.
    """
    find_table = lookup.get()
    table = find_table(dataset) if find_table else None
    if table is None:
        raise ConfigError(
            "dataset",
            f"dataset {dataset!r} must be one of your own tables on this site; no "
            "table has this name. Add it under Your data.",
        )
    return table


def with_table(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings, with the schema of the visitor's table that they name.

    Raises:
        ConfigError: no table has this name.
    """
    filled = dict(values)
    if is_own(filled.get("dataset")) and filled.get("table") is None:
        filled["table"] = find(filled["dataset"])
    return filled


def check_named(dataset: str, table: OwnTable | None) -> None:
    """Raise ConfigError if settings have a schema of another table than they name."""
    if table is not None and dataset != table.name:
        raise ConfigError(
            "table",
            f"table must be left out unless dataset is its name, {table.name!r}, got "
            f"{dataset!r}.",
        )

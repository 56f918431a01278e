"""The stated schema of a visitor's own table; loads no torch and reads no file.

A column's bounds, categories and classes are stated by the visitor and never taken from
the data, so there is nothing to pay for.  A row becomes one record: a number is moved
to [-1, 1] by its bounds, a category has one column per stated value, and all is divided
by the root of the number of columns, so that a record is at most 1 long.
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
MOST_COLUMNS, MOST_VALUES, MOST_CLASSES = 60, 50, 20
MOST_INPUTS = 500
LONGEST_NAME = 80
LARGEST_NUMBER = 1e12
FEWEST = 10  # records to learn from, and to test


class Column(BaseModel):
    """What one column holds, as its owner states it.

    Attributes:
        name: Its head.
        kind: A number within bounds, one of some categories, the label, or ignored.
        low, high: Bounds of a number; values beyond are moved to them.
        values: Categories, or the classes of the label.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    name: str = Field(min_length=1, max_length=LONGEST_NAME)
    kind: Literal["number", "category", "label", "ignored"]
    low: float | None = Field(None, ge=-LARGEST_NUMBER, le=LARGEST_NUMBER)
    high: float | None = Field(None, ge=-LARGEST_NUMBER, le=LARGEST_NUMBER)
    values: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Self:
        has_bounds = self.low is not None and self.high is not None
        if self.kind == NUMBER and not (has_bounds and self._bounds_ascend()):
            raise ConfigError(
                "table",
                f"table: column {self.name!r} is a number and needs two bounds, the "
                f"lower first, got {self.low} and {self.high}.",
            )
        most = MOST_CLASSES if self.kind == LABEL else MOST_VALUES
        listed = 2 <= len(self.values) <= most and len(set(self.values)) == len(
            self.values
        )
        if self.kind in (CATEGORY, LABEL) and not listed:
            raise ConfigError(
                "table",
                f"table: column {self.name!r} needs 2 to {most} different values, got "
                f"{len(self.values)}: {', '.join(self.values[:5])}.",
            )
        return self

    def _bounds_ascend(self) -> bool:
        assert self.low is not None, "both are given"
        assert self.high is not None, "both are given"
        return self.low < self.high

    @property
    def inputs(self) -> int:
        """Number of inputs of the model that it becomes."""
        return {NUMBER: 1, CATEGORY: len(self.values)}.get(self.kind, 0)


class OwnTable(BaseModel):
    """A visitor's own table: the hash of its file, its columns, its sizes.

    Attributes:
        sha256: Of the file.
        columns: In the file's order, one of them the label.
        train_size: Rows to learn from, N.
        test_size: Rows that are only predicted.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    columns: tuple[Column, ...] = Field(min_length=2, max_length=MOST_COLUMNS)
    train_size: int = Field(ge=FEWEST, le=10**6)
    test_size: int = Field(ge=FEWEST, le=10**6)

    @model_validator(mode="after")
    def _has_one_label(self) -> Self:
        check_columns(self.columns)
        return self

    @property
    def name(self) -> str:
        """Its name as a data set: it follows from the file and the columns."""
        digest = hashlib.sha256(self.model_dump_json().encode()).hexdigest()
        return PREFIX + digest[:24]

    @property
    def label(self) -> Column:
        """The column to be predicted."""
        return next(column for column in self.columns if column.kind == LABEL)

    @property
    def features(self) -> tuple[Column, ...]:
        """The columns to predict from."""
        return tuple(column for column in self.columns if column.inputs)

    @property
    def scale(self) -> float:
        """Factor of every input: a record of it is at most 1 long."""
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
        """The public facts; guessing is right as often as one class in all."""
        classes = len(self.label.values)
        return DataSet(
            label=f"Own table, {self.label.name}",
            train_size=self.train_size,
            test_size=self.test_size,
            input_shape=(sum(column.inputs for column in self.features),),
            classes=classes,
            class_names=self.label.values,
            majority=1 / classes,
            note="Your own table. Its test figures are not private.",
        )


def check_columns(columns: tuple[Column, ...]) -> None:
    """Refuse columns that make no task.

    Raises:
        ConfigError: two have one name, there is not one label, nothing to predict it
            from, or too much.
    """
    names = [column.name for column in columns]
    labels = [column.name for column in columns if column.kind == LABEL]
    inputs = sum(column.inputs for column in columns)
    if len(set(names)) < len(names):
        problem = "each name must be there once"
    elif len(labels) != 1:
        problem = f"one column must be the label, got {len(labels)} of them"
    elif not 1 <= inputs <= MOST_INPUTS:
        problem = (
            "at least one other column must be a number or a category, and all of "
            f"them make at most {MOST_INPUTS} inputs, got {inputs}"
        )
    else:
        return
    raise ConfigError("table", f"table: {problem}.")


#: Finds a table by name among those of the visitor who asks.
Lookup = Callable[[str], OwnTable | None]
lookup: ContextVar[Lookup | None] = ContextVar("lookup", default=None)


def label_of(config: Mapping[str, Any]) -> str:
    """Return what the data set of a stored training is called."""
    dataset = config["dataset"]
    if dataset in DATA_SETS:
        return DATA_SETS[dataset].label
    return OwnTable.model_validate(config["table"]).facts.label


def is_own(dataset: object) -> bool:
    """Whether this is the name of somebody's own table."""
    return isinstance(dataset, str) and dataset.startswith(PREFIX)


def find(dataset: str) -> OwnTable:
    """Return the table of this name of the visitor who asks.

    Raises:
        ConfigError: there is none.
    """
    asked = lookup.get()
    table = asked(dataset) if asked else None
    if table is None:
        raise ConfigError(
            "dataset",
            f"dataset {dataset!r} must be one of your own tables on this site; no "
            "table has this name. Add it under Your data.",
        )
    return table

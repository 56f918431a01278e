"""Reads a table of numbers from a CSV file; errors name the wrong cell."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dpsgd_explorer.regression.checks import Array, refuse
from dpsgd_explorer.validation import one_of

LARGEST_FILE = 2 * 1024 * 1024  # bytes


@dataclass(frozen=True, eq=False)
class Table:
    """Features and labels in natural units.

    Attributes:
        X: Features, [n, d].
        y: Labels, [n].
        names: Names of the d columns of X.
    """

    X: Array
    y: Array
    names: tuple[str, ...]
    target: str


def read_table(path: Path, target: str) -> Table:
    """Returns the columns of a file; the column ``target`` is the label.

    Raises:
        ConfigError: the file cannot be read, exceeds 2 MB or is not a table of numbers
            with a header; the message names row and column.
    """
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
    except OSError as error:
        refuse("csv", f"csv must be a file that can be read: {path}: {error.strerror}.")
    if len(content) > LARGEST_FILE:
        refuse("csv", f"csv must be at most 2 MB: {path} is larger. Take fewer rows.")
    try:
        return parse_table(content.decode("utf-8-sig"), target)
    except UnicodeDecodeError:
        refuse("csv", f"csv must be UTF-8 text: {path} is not.")


def parse_table(text: str, target: str) -> Table:
    """Returns the columns of CSV text.

    Raises:
        ConfigError: the text is not a table of numbers with a header; the message names
            row and column.
    """
    try:
        head, *rows = [row for row in csv.reader(io.StringIO(text)) if row]
    except (ValueError, csv.Error):
        refuse("csv", "csv must start with a line of column names, followed by rows.")
    names = [name.strip() for name in head]
    _check_head(names, target)
    if not rows:
        refuse("csv", "csv must hold at least one row of numbers below its head.")
    values = np.array([_numbers(row, names, at) for at, row in enumerate(rows, 1)])
    label = names.index(target)
    features = [column for column in range(len(names)) if column != label]
    return Table(
        X=values[:, features],
        y=values[:, label],
        names=tuple(names[column] for column in features),
        target=target,
    )


def _check_head(names: list[str], target: str) -> None:
    if len(set(names)) < len(names) or "" in names:
        refuse("csv", f"csv must have distinct column names, got {', '.join(names)}.")
    one_of("target", target, names)
    if len(names) < 2:
        refuse("csv", "csv must hold a feature and the target; it has one column.")


def _numbers(row: list[str], names: list[str], at: int) -> list[float]:
    if len(row) != len(names):
        refuse(
            "csv",
            f"csv must have {len(names)} cells in every row; row {at} has {len(row)}.",
        )
    return [_number(text, name, at) for text, name in zip(row, names, strict=True)]


def _number(text: str, name: str, at: int) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        what = "nothing" if not text.strip() else repr(text)
        refuse(
            "csv",
            f"csv must hold finite numbers; row {at}, column {name!r} has {what}. "
            "Remove the column if it is text. Otherwise remove the row, or fill in a "
            "value that does not depend on other rows.",
        )
    return value

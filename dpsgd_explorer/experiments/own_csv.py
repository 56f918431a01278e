"""Reading a visitor's own CSV; every error names its row and column.

The file is UTF-8 with or without a byte order mark and separates cells by commas; its
first row holds the names of the columns.  A hash of a row's cells selects one row in
five for testing, so the selection of a row does not depend on other rows.
"""

from __future__ import annotations

import csv
import hashlib
import io
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from dpsgd_explorer.errors import ConfigError, DataError
from dpsgd_explorer.experiments.own_table import (
    CATEGORY,
    FEWEST,
    LABEL,
    LONGEST_NAME,
    MOST_COLUMNS,
    NUMBERS,
    Column,
    OwnTable,
    check_columns,
)

LARGEST_FILE = 2 * 1024 * 1024
LONGEST_CELL = 1000
TEST_SHARE = 5  # one row in TEST_SHARE is for testing
PLAIN_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?\Z", re.ASCII)

Row = Sequence[str]
#: Returns the file of a table by name; None if there is no such file.
ReadTable = Callable[[str], bytes | None]


@dataclass(frozen=True)
class Checked:
    """A valid table.

    Attributes:
        table: Schema and sizes of the table.
        moved: Number of values that were moved to their bounds, by column.
    """

    table: OwnTable
    moved: dict[str, int]


def header(content: bytes) -> list[str]:
    """Return the names of the columns.

    Raises:
        ConfigError: the file is too large, empty or not UTF-8, or has no valid names.
    """
    rows = _cells(content)
    names = [name.strip() for name in next(rows, [])]
    if not any(names):
        _reject("it is empty: its first row must be the names of the columns")
    if next(rows, None) is None:
        _reject("it has a first row and no other")
    if len(names) == 1:
        hint = ". Separate columns by commas" if re.search(r"[;\t|]", names[0]) else ""
        _reject(f"it has one column, {names[0]!r}, and needs two at least{hint}")
    if len(names) > MOST_COLUMNS:
        _reject(f"it has {len(names)} columns; at most {MOST_COLUMNS} are read")
    for number, name in enumerate(names, start=1):
        _check_name(number, name, names)
    return names


def check(content: bytes, columns: tuple[Column, ...]) -> Checked:
    """Return the table of a file with the stated columns.

    Raises:
        ConfigError: names the first row and column that differ from the statement.
    """
    check_columns(columns)
    _check_heads(content, columns)
    moved: dict[str, int] = {}
    sizes, classes = [0, 0], set()
    label = next((i for i, one in enumerate(columns) if one.kind == LABEL), None)
    for number, row in enumerate(rows_of(content, len(columns)), start=2):
        for column, cell in zip(columns, row, strict=True):
            if _checked(column, cell, number):
                moved[column.name] = moved.get(column.name, 0) + 1
        sizes[is_for_testing(row)] += 1
        if label is not None:
            classes.add(row[label])
    if label is not None and len(classes) < 2:
        only = next(iter(classes), "")
        _reject(
            f"all rows have one class, {only!r}, in column {columns[label].name!r}: "
            "there is nothing to learn",
        )
    if min(sizes) < FEWEST:
        _reject(
            f"it has {sizes[0]} rows to learn from and {sizes[1]} to test; at least "
            f"{FEWEST} of each are needed, about {TEST_SHARE * FEWEST * 2} in all"
        )
    table = OwnTable(
        sha256=hashlib.sha256(content).hexdigest(),
        columns=columns,
        train_size=sizes[0],
        test_size=sizes[1],
    )
    return Checked(table, moved)


def rows_of(content: bytes, width: int) -> Iterator[list[str]]:
    """Yield the rows below the names, with stripped cells and without empty lines.

    Raises:
        ConfigError: a row has the wrong number of cells.
    """
    rows = _cells(content)
    next(rows, None)
    for number, row in enumerate(rows, start=2):
        if len(row) != width:
            _reject(f"row {number} must have {width} cells, got {len(row)}")
        yield [cell.strip() for cell in row]


def within(column: Column, cell: str) -> float:
    """Return a number of the file, moved into its bounds and mapped to [-1, 1]."""
    assert column.low is not None, "a number has bounds"
    assert column.high is not None, "a number has bounds"
    value = min(max(float(cell), column.low), column.high)
    return 2 * (value - column.low) / (column.high - column.low) - 1


def content_of(table: OwnTable, read: ReadTable) -> bytes:
    """Return the file of a table.

    Args:
        table: Schema of the table.
        read: Returns the file of a table by name, or None if there is no such file.

    Raises:
        DataError: the file is missing, or its sha256 differs from the schema's.
    """
    try:
        content = read(table.name)
    except OSError as error:
        raise _missing(table, error.strerror or str(error)) from error
    if content is None:
        raise _missing(table, "there is no such file")
    digest = hashlib.sha256(content).hexdigest()
    if digest != table.sha256:
        raise _missing(table, f"it has sha256 {digest}")
    return content


def from_current_folder(name: str) -> bytes | None:
    """Return the file of a table in the current folder; None if it is missing."""
    try:
        return Path(f"{name}.csv").read_bytes()
    except FileNotFoundError:
        return None


def _missing(table: OwnTable, reason: str) -> DataError:
    return DataError(
        f"the table of this run must be the file {table.name}.csv with sha256 "
        f"{table.sha256}, but: {reason}. The file may have been deleted. To repeat the "
        "run, put the same file into the folder where you start the run."
    )


def is_for_testing(row: Row) -> bool:
    """Return whether a row is for testing; it depends on the row's cells alone."""
    digest = hashlib.blake2b("\x1f".join(row).encode(), digest_size=8).digest()
    return int.from_bytes(digest) % TEST_SHARE == 0


def _cells(content: bytes) -> Iterator[list[str]]:
    """Yield every row that is not empty.

    Raises:
        ConfigError: the file is too large or not text, or a cell is too long.
    """
    if len(content) > LARGEST_FILE:
        _reject(
            f"it is larger than {LARGEST_FILE // 2**20} MiB, the maximum. Bring "
            "fewer rows or columns"
        )
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        _reject(
            f"byte {error.start + 1:,} is not UTF-8. Save the file as CSV in UTF-8",
        )
    if "\x00" in text:
        line = text[: text.index("\x00")].count("\n") + 1
        _reject(f"line {line} holds a NUL byte, so this is no text file")
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for row in reader:
            if any(len(cell) > LONGEST_CELL for cell in row):
                _reject(
                    f"line {reader.line_num} has a cell longer than {LONGEST_CELL} "
                    "characters"
                )
            if row:
                yield row
    except csv.Error as error:
        _reject(f"line {reader.line_num} is no CSV: {error}")


def _check_name(number: int, name: str, names: list[str]) -> None:
    if not name:
        _reject(f"column {number} has no name")
    if len(name) > LONGEST_NAME or not name.isprintable():
        _reject(
            f"the name of column {number} must be at most {LONGEST_NAME} printable "
            f"characters, got {name[:LONGEST_NAME]!r}"
        )
    if names.count(name) > 1:
        _reject(f"the name {name!r} is there {names.count(name)} times")


def _check_heads(content: bytes, columns: Iterable[Column]) -> None:
    names = header(content)
    stated = [column.name for column in columns]
    missing = [name for name in stated if name not in names]
    if missing:
        _reject(f"it has no column {', '.join(map(repr, missing))}")
    if stated != names:
        _reject(f"its columns are {', '.join(names)}; stated are {', '.join(stated)}")


def _checked(column: Column, cell: str, row: int) -> bool:
    """Return whether a number exceeds its bounds.

    Raises:
        ConfigError: the cell does not match the statement on its column.
    """
    if column.kind in NUMBERS:
        value = number_of(cell)
        if value is None:
            _reject(
                f"row {row}, column {column.name!r} must be a number, got "
                f"{_short(cell)}",
                column.name,
            )
        assert column.low is not None, "a number has bounds"
        assert column.high is not None, "a number has bounds"
        return not column.low <= value <= column.high
    if column.kind in (CATEGORY, LABEL) and cell not in column.values:
        _reject(
            f"row {row}, column {column.name!r} must be one of "
            f"{', '.join(column.values[:8])}, got {_short(cell)}",
            column.name,
        )
    return False


def number_of(cell: str) -> float | None:
    """Return the number that a cell holds; None for any other text."""
    if not PLAIN_NUMBER.match(cell):
        return None
    value = float(cell)
    return value if math.isfinite(value) else None


def _short(cell: str) -> str:
    return repr(cell[:40]) if cell else "an empty cell"


def _reject(problem: str, column: str = "") -> NoReturn:
    """Raise ConfigError; its field is the invalid column, or the file."""
    raise ConfigError(column or "file", f"The file cannot be used: {problem}.")

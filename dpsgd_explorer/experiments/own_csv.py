"""Reading a visitor's own CSV: every fault is named with its row and column.

The file is UTF-8 with or without a byte order mark, its first row the names of the
columns, its separator a comma.  A row is for testing where a hash of its cells says so
(one in five), so that no row's part depends on another row.
"""

from __future__ import annotations

import csv
import hashlib
import io
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments.own_table import (
    CATEGORY,
    FEWEST,
    LABEL,
    LONGEST_NAME,
    MOST_COLUMNS,
    NUMBER,
    Column,
    OwnTable,
    check_columns,
)

LARGEST_FILE = 2 * 1024 * 1024
LONGEST_CELL = 1000
TEST_SHARE = 5  # one row in so many is for testing
PLAIN_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?\Z", re.ASCII)

Row = Sequence[str]


@dataclass(frozen=True)
class Checked:
    """A table that can be learned from.

    Attributes:
        table: Its schema and sizes.
        moved: Values beyond their bounds, which are moved to them, by column.
    """

    table: OwnTable
    moved: dict[str, int]


def header(content: bytes) -> list[str]:
    """Return the names of the columns.

    Raises:
        ConfigError: the file is too large, empty, no UTF-8, or its first row no names.
    """
    rows = _cells(content)
    names = [name.strip() for name in next(rows, [])]
    if not any(names):
        _refuse("it is empty: its first row must be the names of the columns")
    if next(rows, None) is None:
        _refuse("it has a first row and no other")
    if len(names) == 1:
        hint = ". Separate columns by commas" if re.search(r"[;\t|]", names[0]) else ""
        _refuse(f"it has one column, {names[0]!r}, and needs two at least{hint}")
    if len(names) > MOST_COLUMNS:
        _refuse(f"it has {len(names)} columns; at most {MOST_COLUMNS} are read")
    for place, name in enumerate(names, start=1):
        _check_name(place, name, names)
    return names


def check(content: bytes, columns: tuple[Column, ...]) -> Checked:
    """Return the table of a file and the stated columns.

    Raises:
        ConfigError: names the first row and column that are not as stated.
    """
    check_columns(columns)
    _check_heads(content, columns)
    moved: dict[str, int] = {}
    sizes, classes = [0, 0], set()
    label = next(i for i, column in enumerate(columns) if column.kind == LABEL)
    for number, row in enumerate(rows_of(content, len(columns)), start=2):
        for column, cell in zip(columns, row, strict=True):
            if _checked(column, cell, number):
                moved[column.name] = moved.get(column.name, 0) + 1
        sizes[is_for_testing(row)] += 1
        classes.add(row[label])
    if len(classes) < 2:
        only = next(iter(classes), "")
        _refuse(
            f"all rows have one class, {only!r}, in column {columns[label].name!r}: "
            "there is nothing to learn",
        )
    if min(sizes) < FEWEST:
        _refuse(
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
    """Yield the rows below the names, their cells stripped; empty lines are left out.

    Raises:
        ConfigError: a row has another number of cells.
    """
    rows = _cells(content)
    next(rows, None)
    for number, row in enumerate(rows, start=2):
        if len(row) != width:
            _refuse(f"row {number} must have {width} cells, got {len(row)}")
        yield [cell.strip() for cell in row]


def is_for_testing(row: Row) -> bool:
    """Whether a row is only predicted: it follows from its cells alone."""
    digest = hashlib.blake2b("\x1f".join(row).encode(), digest_size=8).digest()
    return int.from_bytes(digest) % TEST_SHARE == 0


def _cells(content: bytes) -> Iterator[list[str]]:
    """Yield every row that is not empty.

    Raises:
        ConfigError: the file is too large, no text, or a cell is too long.
    """
    if len(content) > LARGEST_FILE:
        _refuse(
            f"it is larger than {LARGEST_FILE // 2**20} MiB, the maximum. Bring "
            "fewer rows or columns"
        )
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        _refuse(
            f"byte {error.start + 1:,} is not UTF-8. Save the file as CSV in UTF-8",
        )
    if "\x00" in text:
        line = text[: text.index("\x00")].count("\n") + 1
        _refuse(f"line {line} holds a NUL byte, so this is no text file")
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for row in reader:
            if any(len(cell) > LONGEST_CELL for cell in row):
                _refuse(
                    f"line {reader.line_num} has a cell longer than {LONGEST_CELL} "
                    "characters"
                )
            if row:
                yield row
    except csv.Error as error:
        _refuse(f"line {reader.line_num} is no CSV: {error}")


def _check_name(place: int, name: str, names: list[str]) -> None:
    if not name:
        _refuse(f"column {place} has no name")
    if len(name) > LONGEST_NAME or not name.isprintable():
        _refuse(
            f"the name of column {place} must be at most {LONGEST_NAME} printable "
            f"characters, got {name[:LONGEST_NAME]!r}"
        )
    if names.count(name) > 1:
        _refuse(f"the name {name!r} is there {names.count(name)} times")


def _check_heads(content: bytes, columns: Iterable[Column]) -> None:
    names = header(content)
    stated = [column.name for column in columns]
    missing = [name for name in stated if name not in names]
    if missing:
        _refuse(f"it has no column {', '.join(map(repr, missing))}")
    if stated != names:
        _refuse(f"its columns are {', '.join(names)}; stated are {', '.join(stated)}")


def _checked(column: Column, cell: str, row: int) -> bool:
    """Return whether a number is moved to its bound.

    Raises:
        ConfigError: the cell does not hold what its column was stated to hold.
    """
    if column.kind == NUMBER:
        value = number_of(cell)
        if value is None:
            _refuse(
                f"row {row}, column {column.name!r} must be a number, got "
                f"{_short(cell)}",
                column.name,
            )
        assert column.low is not None, "a number has bounds"
        assert column.high is not None, "a number has bounds"
        return not column.low <= value <= column.high
    if column.kind in (CATEGORY, LABEL) and cell not in column.values:
        _refuse(
            f"row {row}, column {column.name!r} must be one of "
            f"{', '.join(column.values[:8])}, got {_short(cell)}",
            column.name,
        )
    return False


def number_of(cell: str) -> float | None:
    """Return a number as it is written in a table; None for anything else."""
    if not PLAIN_NUMBER.match(cell):
        return None
    value = float(cell)
    return value if math.isfinite(value) else None


def _short(cell: str) -> str:
    return repr(cell[:40]) if cell else "an empty cell"


def _refuse(problem: str, column: str = "") -> NoReturn:
    """Raise ConfigError; its field is the column at fault, or the file."""
    raise ConfigError(column or "file", f"The file cannot be used: {problem}.")

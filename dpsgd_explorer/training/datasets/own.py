"""A visitor's table as tensors, read from the visitor's CSV file."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from dpsgd_explorer.errors import DataError
from dpsgd_explorer.experiments.own_csv import is_for_testing, rows_of
from dpsgd_explorer.experiments.own_table import CATEGORY, LABEL, NUMBER, OwnTable

Tensors = tuple[Tensor, Tensor, Tensor, Tensor]
ReadTable = Callable[[str], bytes | None]


def load(table: OwnTable, read: ReadTable) -> Tensors:
    """Returns training inputs and labels, then test inputs and labels.

    Shapes: inputs [N, D] float32, rows of norm at most 1; labels [N] int64.

    Args:
        table: Schema of the table.
        read: Function that returns the file of a table by name, or None if there is no
            such file.

    Raises:
        DataError: the file is missing, or its sha256 differs from the schema's.
    """
    content = _content(table, read)
    parts: tuple[list[list[float]], list[list[float]]] = ([], [])
    labels: tuple[list[int], list[int]] = ([], [])
    for row in rows_of(content, len(table.columns)):
        part = is_for_testing(row)
        record: list[float] = []
        for column, cell in zip(table.columns, row, strict=True):
            if column.kind == NUMBER:
                assert column.low is not None, "a number has bounds"
                assert column.high is not None, "a number has bounds"
                value = min(max(float(cell), column.low), column.high)
                share = (value - column.low) / (column.high - column.low)
                record.append(2 * share - 1)
            elif column.kind == CATEGORY:
                record += [float(cell == value) for value in column.values]
            elif column.kind == LABEL:
                labels[part].append(column.values.index(cell))
        parts[part].append(record)
    train, test = (torch.tensor(rows) * table.scale for rows in parts)
    return train, torch.tensor(labels[0]), test, torch.tensor(labels[1])


def from_current_folder(name: str) -> bytes | None:
    """Returns the file of a table in the current folder; None if it is missing."""
    try:
        return Path(f"{name}.csv").read_bytes()
    except FileNotFoundError:
        return None


def _content(table: OwnTable, read: ReadTable) -> bytes:
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


def _missing(table: OwnTable, reason: str) -> DataError:
    return DataError(
        f"the table of this run must be the file {table.name}.csv with sha256 "
        f"{table.sha256}, but: {reason}. The file may have been deleted. To repeat the "
        "run, put the same file into the folder where you start the run."
    )

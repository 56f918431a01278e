"""A visitor's table as tensors, read from the visitor's CSV file."""

from __future__ import annotations

import torch
from torch import Tensor

from dpsgd_explorer.experiments.own_csv import (
    ReadTable,
    content_of,
    is_for_testing,
    rows_of,
    within,
)
from dpsgd_explorer.experiments.own_table import CATEGORY, LABEL, NUMBER, OwnTable

Tensors = tuple[Tensor, Tensor, Tensor, Tensor]


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
    content = content_of(table, read)
    parts: tuple[list[list[float]], list[list[float]]] = ([], [])
    labels: tuple[list[int], list[int]] = ([], [])
    for row in rows_of(content, len(table.columns)):
        part = is_for_testing(row)
        record: list[float] = []
        for column, cell in zip(table.columns, row, strict=True):
            if column.kind == NUMBER:
                record.append(within(column, cell))
            elif column.kind == CATEGORY:
                record += [float(cell == value) for value in column.values]
            elif column.kind == LABEL:
                labels[part].append(column.values.index(cell))
        parts[part].append(record)
    train, test = (torch.tensor(rows) * table.scale for rows in parts)
    return train, torch.tensor(labels[0]), test, torch.tensor(labels[1])

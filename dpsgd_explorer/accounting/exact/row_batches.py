"""Which rows may share a line: like tilts, like numbers of steps.

Notation: T rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from dpsgd_explorer.accounting.core.accountant import Floats

SPAN = 9  # tilts of rows that share a line
MANY = 16  # steps from which a block is OCTAVES wide, before one
OCTAVES = 2.0


def blocks(
    places: npt.NDArray[np.intp],
    steps: Floats,
    octaves: float = OCTAVES,
    span: int = SPAN,
) -> Iterator[npt.NDArray[np.intp]]:
    """Yield the rows that may share a line: like tilts, like numbers of steps.

    The fewest steps of a block decide how many frequencies all rows take, which costs
    little where they are few anyway.
    """
    heights = np.log2(steps)
    few = math.log2(MANY)
    blocks = np.where(steps < MANY, heights, few + (heights - few) / octaves)
    blocks = np.where(places >= 0, np.floor(blocks), -1)
    for block in np.unique(blocks[blocks >= 0]):
        rows = np.flatnonzero(blocks == block)
        groups = (places[rows] - places[rows].min()) // span
        for group in np.unique(groups):
            yield rows[groups == group]


def halves(rows: npt.NDArray[np.intp], steps: Floats) -> list[npt.NDArray[np.intp]]:
    """Return the rows with fewer and those with more steps."""
    return np.array_split(rows[np.argsort(steps[rows], kind="stable")], 2)

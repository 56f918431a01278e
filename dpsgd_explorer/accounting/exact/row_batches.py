"""Batches of rows that share a contour: near saddle points, like numbers of steps.

Notation: T rows (numbers of steps, or ε).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from dpsgd_explorer.accounting.core.accountant import Floats

Indices = npt.NDArray[np.intp]

TILT_SPAN = 9  # neighbouring tilts whose rows share a contour
OCTAVES = 2.0  # factor in the number of steps, as a power of 2, within one batch
MANY_STEPS = 16  # from which that holds; below, a batch is one octave wide


def row_batches(
    indices: Indices,
    steps: Floats,
    octaves: float = OCTAVES,
    tilt_span: int = TILT_SPAN,
) -> Iterator[Indices]:
    """Yield batches of rows that share a contour.

    The row with the fewest steps decides how many frequencies all rows of its batch
    take.  Its transform decays most slowly.

    Shapes: indices [T], steps [T].

    Args:
        indices: Index of each row's saddle point in the grid of tilts; rows with -1
            are in no batch.
        steps: Number of steps of each row.
        octaves: Widest ratio of numbers of steps in one batch, as a power of 2.
        tilt_span: Number of neighbouring tilts in one batch.
    """
    heights = np.log2(steps)
    few = math.log2(MANY_STEPS)
    levels = np.where(steps < MANY_STEPS, heights, few + (heights - few) / octaves)
    levels = np.where(indices >= 0, np.floor(levels), -1)
    for level in np.unique(levels[levels >= 0]):
        rows = np.flatnonzero(levels == level)
        groups = (indices[rows] - indices[rows].min()) // tilt_span
        for group in np.unique(groups):
            yield rows[groups == group]


def split_in_two(rows: Indices, steps: Floats) -> list[Indices]:
    """Return the half of the rows with fewer steps, and the other half."""
    return np.array_split(rows[np.argsort(steps[rows], kind="stable")], 2)

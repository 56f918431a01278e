"""Curves of intervals as arrays, so that a test can compare all of a curve at once."""

from dataclasses import dataclass

import numpy as np

from dpsgd_explorer.accounting.core.intervals import common_status


@dataclass(frozen=True)
class Curve:
    """Values and bounds of several intervals, [S] each, None where nothing is proven.

    ``status`` is that of all together.
    """

    values: np.ndarray
    lower: np.ndarray | None
    upper: np.ndarray | None
    status: str


def arrays(intervals):
    """Return a curve of intervals as arrays."""
    values = np.array([x.value for x in intervals])
    sides = [[x.lower for x in intervals], [x.upper for x in intervals]]
    lower, upper = (None if None in side else np.array(side) for side in sides)
    return Curve(values, lower, upper, common_status(intervals))

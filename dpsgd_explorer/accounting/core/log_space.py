"""Sums and differences of numbers that only fit into a float as logarithms."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def log_expm1(values: Floats) -> Floats:
    """Return log(e^x - 1) for x > 0, without overflow."""
    return np.asarray(values + np.log(-np.expm1(-values)))  # e^x - 1 = e^x (1 - e^-x)


def log_sum_segments(values: Floats, starts: npt.NDArray[np.intp]) -> Floats:
    """Return log of the sum of e^x over each segment of a flat array.

    Shapes: values [n], starts [A] (first index of each segment) -> [A].
    """
    largest = np.maximum.reduceat(values, starts)  # [A]
    lengths = np.diff(starts, append=len(values))
    scaled = np.exp(values - np.repeat(largest, lengths))  # [n], each at most 1
    return np.asarray(largest + np.log(np.add.reduceat(scaled, starts)))

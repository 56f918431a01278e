"""The toy problem: a line through 24 points, one of them odd.

The model is y = a x + b with parameters θ = (a, b); a record's loss is half its
squared error r²/2, r = a x + b - y, so its gradient is (r x, r).
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence

Vector = tuple[float, float]

RECORDS_SEED = 5
SIZE = 24
ODD = SIZE - 1  # the last record is the odd one
X_RANGE = (-1.25, 1.25)  # range of the figures, and of the odd record when moved
Y_RANGE = (-3.0, 3.0)


def records() -> list[Vector]:
    """Returns the points (x, y), which are synthetic and constant."""
    source = random.Random(RECORDS_SEED)
    usual = []
    for i in range(SIZE - 1):
        x = -1 + 2 * (i + 0.5) / (SIZE - 1)
        usual.append((x, 0.9 * x + 0.8 + source.gauss(0, 0.25)))
    return [*usual, (0.95, -2.0)]


def gradient(theta: Vector, record: Vector) -> Vector:
    """Returns one record's gradient at θ."""
    x, y = record
    residual = theta[0] * x + theta[1] - y
    return residual * x, residual


def fit(points: Sequence[Vector]) -> Vector:
    """Returns θ of the least squares line."""
    line = statistics.linear_regression([x for x, _ in points], [y for _, y in points])
    return line.slope, line.intercept


def norm(vector: Vector) -> float:
    """Returns the L2 norm."""
    return math.hypot(*vector)


def total(vectors: Sequence[Vector]) -> Vector:
    """Returns the sum; (0, 0) for no vectors."""
    return sum(v[0] for v in vectors), sum(v[1] for v in vectors)


def scaled(vector: Vector, factor: float) -> Vector:
    """Returns the vector scaled by a factor."""
    return vector[0] * factor, vector[1] * factor


def angle(first: Vector, second: Vector) -> float:
    """Returns the angle between two vectors, degrees."""
    cosine = (first[0] * second[0] + first[1] * second[1]) / norm(first) / norm(second)
    return math.degrees(math.acos(max(-1.0, min(1.0, cosine))))

"""Searches for further steps whose ε with other mechanisms meets a target.

Each ε takes about half a second, so that the searches end at a relative distance of
TOLERANCE, on the safe side.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable

#: Largest relative distance of the result from the best value.
TOLERANCE = 1e-3
#: Doublings, or halvings, of the first value.
MAX_DOUBLINGS = 20


def nearest_within(
    start: float, is_within: Callable[[float], bool], factor: float
) -> float | None:
    """Returns about the value nearest to ``start`` that is within a target.

    >>> round(nearest_within(1.0, lambda noise: noise >= 3.0, 2.0), 3)
    3.002

    Args:
        start: A value that is too good, or just within.
        is_within: If True, a value meets the target; so do all values beyond it.
        factor: 2 if larger values are safer, 1/2 if smaller ones are.

    Returns:
        None if no value meets the target.
    """
    if is_within(start):
        return start
    bad, good = start, start * factor
    for _ in range(MAX_DOUBLINGS):
        if is_within(good):
            break
        bad, good = good, good * factor
    else:
        return None
    while abs(good - bad) > TOLERANCE * min(good, bad):
        middle = math.sqrt(good * bad)
        if is_within(middle):
            good = middle
        else:
            bad = middle
    return good


def most_steps_within(most: int, is_within: Callable[[int], bool]) -> int:
    """Returns the largest number of steps up to ``most`` that is within a target."""
    return bisect_right(range(1, most + 1), False, key=lambda n: not is_within(n))

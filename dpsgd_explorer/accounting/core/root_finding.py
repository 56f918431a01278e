"""Searches that end on the safe side of the answer.

``scipy.optimize`` would take 0.3 s to import, and gives the root without its bracket.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, Context
from functools import cache

from dpsgd_explorer.accounting.core.validation import MAX_NOISE_MULTIPLIER
from dpsgd_explorer.errors import AccountingError

Function = Callable[[float], float]
Point = tuple[float, float]  # argument and value

TOLERANCE = 1e-12
PRECISION = 2e-10  # enough where each value takes milliseconds
JUMP = 0.999  # on either side of a root, of numbers up to 1: near enough within
JUMP_TOLERANCE = 1e-6
LEAST_STEEPNESS = 0.5
LONGEST_LOG_STEP = math.log(4)
LEAST_RISE = 0.2  # of log ε with the log of the steps
HELD_UP = 0.8  # of the last value, that the next one should be below
LEAST_SHARE = 0.05  # of a bracket, that the first guess is from its ends
SMALLEST_STRIDE = 0.01
AHEAD = 1.2  # of a stride, over what the last two values ask
LEAST_GAIN = 0.05
LARGEST_STRIDE = 4.0
MAX_VALUES = 500  # of the function, in one search: some eight times the most ever seen


def first_safe(
    excess: Function,
    low: float,
    high: float,
    tolerance: float = TOLERANCE,
    jump: float = 0.0,
) -> float:
    """Return where a decreasing function stops being positive, or just behind.

    Args:
        excess: Decreasing, finite, positive at low and not at high.
        low: Left end of the bracket.
        high: Right end of the bracket.
        tolerance: Half of how far the answer may be off.
        jump: The same where both values next to the root are almost 1 in size.

    Returns:
        A point whose value was seen not to be positive, within twice the tolerance of
        one, relative to its size if that is above 1, whose value was seen to be.

    Source: Chandrupatla (1997), Advances in Engineering Software 28(3), 145-149:
    inverse quadratic interpolation where it is sure to fall into the bracket, else
    bisection.
    """
    last, other = (high, excess(high)), (low, excess(low))
    share = last[1] / (last[1] - other[1])
    share = min(max(share, LEAST_SHARE), 1 - LEAST_SHARE)
    for _ in range(MAX_VALUES):
        x = last[0] + share * (other[0] - last[0])
        new = (x, excess(x))
        if (new[1] > 0) == (last[1] > 0):
            before = last
        else:
            before, other = other, last
        last = new
        jumps = min(abs(last[1]), abs(other[1])) > JUMP
        near = max(tolerance, jump) if jumps else tolerance
        least_share = near * max(abs(x), 1.0) / abs(other[0] - last[0])
        if least_share > 0.5:
            return other[0] if last[1] > 0 else last[0]
        share = _interpolated(last, other, before)
        share = min(max(share, least_share), 1 - least_share)
    raise endless(last[0], other[0])


def _interpolated(last: Point, other: Point, before: Point) -> float:
    """Return how far to go from the last point to the other one, in (0, 1)."""
    (x1, f1), (x2, f2), (x3, f3) = last, other, before
    if f3 in (f1, f2):
        return 0.5
    place, value = (x1 - x2) / (x3 - x2), (f1 - f2) / (f3 - f2)
    if value**2 >= place or (1 - value) ** 2 >= 1 - place:
        return 0.5
    quadratic = f1 / (f2 - f1) * f3 / (f2 - f3)
    return quadratic + (x3 - x1) / (x2 - x1) * f1 / (f3 - f1) * f2 / (f3 - f2)


def most_steps(excess: Callable[[int], float], start: float, most: int) -> int:
    """Return the largest whole number at which an increasing function is not positive.

    Args:
        excess: Of a number of steps; log(spent / target) serves well.
        start: A guess.
        most: That may be returned.
    """
    low, high = (0, -math.inf), (most + 1, math.inf)
    guess = min(max(round(start), 1), most)
    for turn in range(1, MAX_VALUES):
        if high[0] - low[0] <= 1:
            return low[0]
        value = excess(guess)
        if value <= 0:
            low = (guess, value)
        else:
            high = (guess, value)
        guess = _next_steps(low, high, turn)
    raise endless(low[0], high[0])


def _next_steps(low: Point, high: Point, turn: int) -> int:
    """Return where to look between the two: on the line, or halfway; in log steps."""
    left, right = math.log(max(low[0], 0.5)), math.log(high[0])
    share = 0.5
    if math.isfinite(low[1]) and math.isfinite(high[1]) and turn % 4:
        share = -low[1] / (high[1] - low[1])
        width = 1 / max(low[0], 1) / max(right - left, 1e-300)
        share = min(max(share, width), 1 - width) if width < 0.5 else 0.5
    elif math.isfinite(low[1]):
        share = _stride(low[1]) / (right - left)
        share = share if share < 0.5 else 1.0  # else the largest that there is
    elif math.isfinite(high[1]):
        share = max(1 - _stride(high[1]) / (right - left), 0.5)
    guess = round(math.exp(left + share * (right - left)))
    return int(min(max(guess, low[0] + 1), high[0] - 1))


def _stride(excess: float) -> float:
    """Return by how many log steps to go, so as to come out beyond the root."""
    return min(abs(excess) / LEAST_RISE, LONGEST_LOG_STEP)


def relative_excess(spent: float, target: float) -> float:
    """Return a smooth number in [-1, 1] that has the exact sign of spent - target."""
    return 1.0 if math.isinf(spent) else (spent - target) / max(spent, target)


def least_noise(
    excess: Function,
    start: float = 1.0,
    tolerance: float = TOLERANCE,
    steepness: float = 1.0,
) -> float:
    """Return the least noise multiplier at which a decreasing function is not positive.

    Args:
        excess: Of the noise multiplier, from -1 to 1; how much more is spent than may
            be.  Where it jumps from one end to the other, a millionth is near enough.
        start: A guess.
        tolerance: As of ``first_safe``, of the logarithm.
        steepness: About how often the logarithm of what is spent falls by 1 where that
            of the noise multiplier rises by 1.

    Returns:
        At least 1 / MAX_NOISE_MULTIPLIER; infinity if MAX_NOISE_MULTIPLIER is not
        enough.
    """

    @cache  # the ends of the bracket are asked for again
    def of_log(log_noise: float) -> float:
        return excess(min(math.exp(log_noise), MAX_NOISE_MULTIPLIER))

    end = math.log(MAX_NOISE_MULTIPLIER)
    low, high = _bracket(of_log, math.log(start), end, steepness)
    if low == high and high > 0:
        return math.inf
    found = (
        high
        if low == high
        else first_safe(of_log, low, high, tolerance, JUMP_TOLERANCE)
    )
    return min(math.exp(found), MAX_NOISE_MULTIPLIER)


def _bracket(excess: Function, start: float, end: float, steepness: float) -> Point:
    """Return low < high around the root in [-end, end], or the end next to it twice."""
    here, stride = (start, excess(start)), 1 / steepness
    least = SMALLEST_STRIDE / steepness
    sign = 1.0 if here[1] > 0 else -1.0
    while sign * here[0] < end:
        stride = min(max(AHEAD * stride * _log_ratio(here[1]), least), LARGEST_STRIDE)
        x = sign * min(sign * here[0] + stride, end)
        there = (x, excess(x))
        if (there[1] > 0) != (sign > 0):
            return min(here[0], x), max(here[0], x)
        gained = _log_ratio(here[1]) - _log_ratio(there[1])
        least, stride = 2 * stride, stride / max(gained, LEAST_GAIN)
        here = there
    return here[0], here[0]


def _log_ratio(excess: float) -> float:
    """Return |log| of spent / target, up to about 7, from 1 less the smaller ratio."""
    return -math.log1p(-min(abs(excess), 0.999))


def endless(low: float, high: float) -> AssertionError:
    """Return the error of a search that does not end: a fault of the program."""
    return AssertionError(
        f"a search must end within {MAX_VALUES} values, got a bracket from {low!r} to "
        f"{high!r} after them."
    )


def unreachable(
    target_epsilon: object, least: float, setting: str = "noise"
) -> AccountingError:
    """Return the error for a target below the least that any value of it reaches."""
    nearest = Context(prec=3, rounding=ROUND_CEILING).create_decimal(least)
    return AccountingError(
        f"target_epsilon must be at least {nearest:g}, the smallest epsilon that any "
        f"{setting} reaches here, got {target_epsilon!r}. Raise target_epsilon or "
        "delta.",
        field="target_epsilon",
    )

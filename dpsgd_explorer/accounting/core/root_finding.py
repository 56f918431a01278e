"""Searches for roots whose result is on the safe side of the root.

``scipy.optimize`` takes 0.3 s to import, and returns a root without its bracket.
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

#: Default tolerance of a root.
ROOT_TOLERANCE = 1e-12
#: Tolerance of a root where each evaluation takes milliseconds.
SLOW_ROOT_TOLERANCE = 2e-10
#: A function with values from -1 to 1 jumps at a root if both values next to the root
#: exceed MIN_JUMP_SIZE in size; then JUMP_TOLERANCE is enough.
MIN_JUMP_SIZE, JUMP_TOLERANCE = 0.999, 1e-6
#: Largest factor between two numbers of steps of a search, as a logarithm.
MAX_LOG_STEP = math.log(4)
#: Smallest slope of log ε over the log of the steps that a search assumes.
MIN_RISE = 0.2
#: Smallest distance of the first guess from the ends of its bracket, as a share of it.
MIN_SHARE = 0.05
#: Smallest and largest stride of a search for a bracket, in the log of the noise.
MIN_STRIDE, MAX_STRIDE = 0.01, 4.0
#: Factor on the stride that the last two values suggest, so that it passes the root.
STRIDE_MARGIN = 1.2
#: Smallest change of log ε per stride that a search assumes.
MIN_GAIN = 0.05
#: Half of the part of ε that ``near_noise`` may leave over.
CLOSE = 4e-4
#: Largest error of the logarithm of the noise of ``near_noise`` at a jump, and change
#: of the logarithm of ε that is a jump in such an interval.
NEAR_JUMP, LEAST_JUMP = 1e-3, 0.05
#: Largest excess that ``near_noise`` takes into account.
FARTHEST = 3.0
#: Smallest -d log ε / d log σ that ``near_noise`` assumes.
MIN_STEEPNESS = 0.5
#: Ratio between successive excesses above which ``near_noise`` assumes a jump.
MAX_EXCESS_RATIO = 0.8
#: Evaluations of the function in one search: about eight times the largest number seen.
MAX_EVALUATIONS = 500


def first_safe(
    excess: Function,
    low: float,
    high: float,
    tolerance: float = ROOT_TOLERANCE,
    jump: float = 0.0,
) -> float:
    """Returns a point at or just above the root of a decreasing function.

    Args:
        excess: Decreasing, finite, positive at low and not at high.
        low: Left end of the bracket.
        high: Right end of the bracket.
        tolerance: Half of the largest error of the root.
        jump: Half of the largest error where the function jumps at the root.

    Returns:
        A point with a value that is not positive.  A point at most twice the tolerance
        below it has a positive value; the tolerance is relative for points above 1 in
        size.

    Source: Chandrupatla (1997), Advances in Engineering Software 28(3), 145-149:
    inverse quadratic interpolation where it is certain to stay in the bracket, else
    bisection.
    """
    last, other = (high, excess(high)), (low, excess(low))
    share = last[1] / (last[1] - other[1])
    share = min(max(share, MIN_SHARE), 1 - MIN_SHARE)
    for _ in range(MAX_EVALUATIONS):
        x = last[0] + share * (other[0] - last[0])
        new = (x, excess(x))
        if (new[1] > 0) == (last[1] > 0):
            before = last
        else:
            before, other = other, last
        last = new
        jumps = min(abs(last[1]), abs(other[1])) > MIN_JUMP_SIZE
        distance = max(tolerance, jump) if jumps else tolerance
        least_share = distance * max(abs(x), 1.0) / abs(other[0] - last[0])
        if least_share > 0.5:
            return other[0] if last[1] > 0 else last[0]
        share = _interpolated(last, other, before)
        share = min(max(share, least_share), 1 - least_share)
    raise endless(last[0], other[0])


def _interpolated(last: Point, other: Point, before: Point) -> float:
    """Returns the next point, as a share of the way from last to other, in (0, 1)."""
    (x1, f1), (x2, f2), (x3, f3) = last, other, before
    if f3 in (f1, f2):
        return 0.5
    position, value = (x1 - x2) / (x3 - x2), (f1 - f2) / (f3 - f2)
    if value**2 >= position or (1 - value) ** 2 >= 1 - position:
        return 0.5
    quadratic = f1 / (f2 - f1) * f3 / (f2 - f3)
    return quadratic + (x3 - x1) / (x2 - x1) * f1 / (f3 - f1) * f2 / (f3 - f2)


def most_steps(excess: Callable[[int], float], start: float, most: int) -> int:
    """Returns the largest whole number at which an increasing function is not positive.

    Args:
        excess: Function of the number of steps, such as log(spent / target).
        start: Guess with which the search starts.
        most: Largest number that may be returned.
    """
    low, high = (0, -math.inf), (most + 1, math.inf)
    guess = min(max(round(start), 1), most)
    for turn in range(1, MAX_EVALUATIONS):
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
    """Returns the next number between two: by the secant, or halfway; in log steps."""
    left, right = math.log(max(low[0], 0.5)), math.log(high[0])
    share = 0.5
    if math.isfinite(low[1]) and math.isfinite(high[1]) and turn % 4:
        share = -low[1] / (high[1] - low[1])
        width = 1 / max(low[0], 1) / max(right - left, 1e-300)
        share = min(max(share, width), 1 - width) if width < 0.5 else 0.5
    elif math.isfinite(low[1]):
        share = _stride(low[1]) / (right - left)
        share = share if share < 0.5 else 1.0  # 1.0: the largest number
    elif math.isfinite(high[1]):
        share = max(1 - _stride(high[1]) / (right - left), 0.5)
    guess = round(math.exp(left + share * (right - left)))
    return int(min(max(guess, low[0] + 1), high[0] - 1))


def _stride(excess: float) -> float:
    """Returns a stride in the log of the steps that most likely passes the root."""
    return min(abs(excess) / MIN_RISE, MAX_LOG_STEP)


def relative_excess(spent: float, target: float) -> float:
    """Returns spent - target over the larger of the two, from -1 to 1."""
    return 1.0 if math.isinf(spent) else (spent - target) / max(spent, target)


def least_noise(
    excess: Function,
    start: float = 1.0,
    tolerance: float = ROOT_TOLERANCE,
    steepness: float = 1.0,
) -> float:
    """Returns the least noise multiplier at which a falling function is not positive.

    Args:
        excess: Function of the noise multiplier, from -1 to 1, such as
            ``relative_excess``.
        start: Guess with which the search starts.
        tolerance: As for ``first_safe``, for the logarithm of the noise multiplier.
        steepness: About -d log ε / d log σ; it decides the first stride.

    Returns:
        At least 1 / MAX_NOISE_MULTIPLIER; infinity if MAX_NOISE_MULTIPLIER is not
        enough.
    """

    @cache  # the ends of the bracket are evaluated twice
    def of_log(log_noise: float) -> float:
        return excess(min(math.exp(log_noise), MAX_NOISE_MULTIPLIER))

    end = math.log(MAX_NOISE_MULTIPLIER)
    low, high = _bracket(of_log, math.log(start), end, steepness)
    if low == high and high > 0:
        return math.inf
    if low < high:
        high = first_safe(of_log, low, high, tolerance, JUMP_TOLERANCE)
    return min(math.exp(high), MAX_NOISE_MULTIPLIER)


def near_noise(
    excess: Function, start: float, steepness: float, close: float = CLOSE
) -> float:
    """Returns a noise multiplier that spends almost the whole budget, in few steps.

    The search is a secant method on logarithms.  It bisects if the secant leaves the
    bracket, or if a jump slows it down.

    Args:
        excess: Decreasing function of the noise multiplier: log of the ratio of the
            spent to the allowed ε.
        start: Guess with which the search starts.
        steepness: As for ``least_noise``.
        close: Half of the part of the budget that may be left over.

    Returns:
        Noise multiplier with an excess from -2 close to 0.  If a jump makes this
        impossible, the smallest one found with an excess of at most 0, within
        NEAR_JUMP.  At least 1 / MAX_NOISE_MULTIPLIER; infinity if even
        MAX_NOISE_MULTIPLIER is not enough.
    """
    end = math.log(MAX_NOISE_MULTIPLIER)
    low, high, x = (-end, FARTHEST), (end, -FARTHEST), math.log(start)
    previous: Point | None = None
    for _ in range(MAX_EVALUATIONS):
        jumps = low[1] - high[1] > LEAST_JUMP
        if high[0] - low[0] <= (NEAR_JUMP if jumps else close / 4):
            break
        over = excess(math.exp(x))
        if -2 * close <= over <= 0:
            return math.exp(x)
        new = (x, min(max(over + close, -FARTHEST), FARTHEST))
        low, high = (new, high) if over > 0 else (low, new)
        is_slowed = False
        if previous:
            is_slowed = abs(new[1]) > MAX_EXCESS_RATIO * abs(previous[1])
            slope = (previous[1] - new[1]) / (x - previous[0])
            steepness = max(slope, MIN_STEEPNESS) if slope else steepness
        previous, x = new, x + new[1] / steepness
        is_enclosed = -end < low[0] and high[0] < end
        if (is_slowed and is_enclosed) or not low[0] < x < high[0]:
            x = 0.5 * (low[0] + high[0])
    else:
        raise endless(low[0], high[0])
    if high[0] == end:
        return MAX_NOISE_MULTIPLIER if excess(MAX_NOISE_MULTIPLIER) <= 0 else math.inf
    return math.exp(high[0])


def _bracket(excess: Function, start: float, end: float, steepness: float) -> Point:
    """Returns low < high around the root in [-end, end], or the nearest end twice."""
    here, stride = (start, excess(start)), 1 / steepness
    least = MIN_STRIDE / steepness
    sign = 1.0 if here[1] > 0 else -1.0
    while sign * here[0] < end:
        stride = min(
            max(STRIDE_MARGIN * stride * _log_ratio(here[1]), least), MAX_STRIDE
        )
        x = sign * min(sign * here[0] + stride, end)
        there = (x, excess(x))
        if (there[1] > 0) != (sign > 0):
            return min(here[0], x), max(here[0], x)
        gained = _log_ratio(here[1]) - _log_ratio(there[1])
        least, stride = 2 * stride, stride / max(gained, MIN_GAIN)
        here = there
    return here[0], here[0]


def _log_ratio(excess: float) -> float:
    """Returns |log(spent / target)|, up to about 7, from a ``relative_excess``."""
    return -math.log1p(-min(abs(excess), 0.999))


def endless(low: float, high: float) -> AssertionError:
    """Returns the error of a search that does not end: a fault of the program."""
    return AssertionError(
        f"a search must end within {MAX_EVALUATIONS} values, got a bracket from "
        f"{low!r} to {high!r} after them."
    )


def unreachable(
    target_epsilon: object, least: float, setting: str = "noise"
) -> AccountingError:
    """Returns the error for a target below every ε that the setting can reach."""
    nearest = Context(prec=3, rounding=ROUND_CEILING).create_decimal(least)
    return AccountingError(
        f"target_epsilon must be at least {nearest:g}, the smallest epsilon that any "
        f"{setting} reaches here, got {target_epsilon!r}. Raise target_epsilon or "
        "delta.",
        field="target_epsilon",
    )

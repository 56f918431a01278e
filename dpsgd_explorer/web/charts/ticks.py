"""Rules of axes: round ticks, and the scale and range of accuracies.

``static/js/charts/ticks.js`` has the same rules, because axes of live runs grow with
their points; ``tests/web/charts/test_ticks.py`` compares both.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

Ends = tuple[float, float]
# Percent, in order of preference.
TICKS = (99.9, 99, 98, 95, 90, 85, 80, 70, 75, 60, 50, 0, 40, 30, 20, 10)
APART = 0.08  # minimum distance of two ticks, as a share of the axis
CLOSE = 20  # percentage points; a smaller range has evenly spaced ticks
ROUND = 5  # percentage points; an end of the axis that divides by it has a tick
MAX_PERCENT = 99.5  # end of the axis for accuracies above the usual range


def nice_step(end: float, count: int) -> float:
    """Returns a round step between ticks, for about ``count`` ticks up to ``end``."""
    rough = end / count
    power: float = 10.0 ** math.floor(math.log10(rough))
    step = next(f for f in (1, 2, 5, 10) if f * power >= rough * (1 - 1e-9))
    return step * power


def nice_ticks(end: float, count: int = 6) -> list[tuple[float, str]]:
    """Returns round values from 0 to an end above 0, with their text."""
    return [(value, tick_text(value)) for value in spaced((0, end), count)]


def nice_ceiling(value: float) -> float:
    """Returns the smallest round number that is at least ``value``."""
    return nice_step(value, 1)


def spaced(ends: Ends, count: int) -> list[float]:
    """Returns evenly spaced round values between two ends, about ``count``."""
    low, high = ends
    step = nice_step(high - low, count)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{i * step:.12g}") for i in range(first, last + 1)]


def tick_text(value: float) -> str:
    """Returns the text of a tick, at most six digits."""
    return f"{value:,.6g}"


def error_height(percent: float, ends: Ends) -> float:
    """Returns the position of an accuracy on an axis that is logarithmic in the error.

    An accuracy above the upper end is at the end.
    """
    return -math.log10(1 - min(percent, ends[1]) / 100)


def error_ticks(ends: Ends) -> list[tuple[float, str]]:
    """Returns positions and texts of the ticks between two accuracies in percent."""
    low, high = ends
    if high - low < CLOSE:
        percents = spaced(ends, 5)
    else:
        percents = sorted(_apart(ends, [low, *TICKS] if low % ROUND == 0 else TICKS))
    return [(error_height(value, ends), tick_text(value)) for value in percents]


def _apart(ends: Ends, candidates: Iterable[float]) -> list[float]:
    """Returns the candidates on the axis that are not too close to earlier ones."""
    least_gap = APART * (error_height(ends[1], ends) - error_height(ends[0], ends))
    kept: list[float] = []
    for value in candidates:
        gaps = (error_height(value, ends) - error_height(k, ends) for k in kept)
        is_inside = ends[0] <= value <= ends[1]
        if is_inside and all(abs(gap) >= least_gap for gap in gaps):
            kept.append(value)
    return kept


def error_range(usual: Ends, percents: Iterable[float]) -> Ends:
    """Returns the usual ends of an axis of accuracies, extended to contain all."""
    low, high = min([usual[0], *percents]), max([usual[1], *percents])
    return (
        10.0 * math.floor(low / 10) if low < usual[0] else usual[0],
        MAX_PERCENT if high > usual[1] else usual[1],
    )

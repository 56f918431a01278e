"""Shared parts of charts of errors against ε: axes, baselines, bands, lines, names."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from dpsgd_explorer.regression.comparison import EPSILONS, Spread
from dpsgd_explorer.web.figures.svg import Anchor, Plot, Point, round_ticks
from dpsgd_explorer.web.labs.regression.error_axes import COLOURS, ERROR_NAME, ErrorAxes
from dpsgd_explorer.web.labs.regression.question import METHODS, TOP_EPSILON
from dpsgd_explorer.web.labs.regression.results import (
    FEW,
    NAMES,
    RankedMethod,
    View,
    mse,
)
from dpsgd_explorer.web.questions.rounding import significant

WIDE, NARROW = (816, 380), (342, 320)
BANDS = {"private": "f-area", "attack": "f-wash-attack", "good": "f-wash-good"}
EPSILON_TICKS = 5
TABLE_EPSILONS = 8  # number of rows of a table, without the row of the question
NAME_ROOM = 92  # px, right margin of a wide chart for the names of lines
SHORT_NAMES = {
    **NAMES,
    "noisy_gd": "noisy GD",
    "large_noise": "GD, σ = 500",
    "small_noise": "GD, σ = 50",
}


def error_plot(
    view: View,
    size: tuple[int, int],
    *,
    narrow: bool,
    epsilon: float = TOP_EPSILON,
    room: int = NAME_ROOM,
) -> Plot:
    """Returns axes of errors against ε, with both baselines.

    Args:
        view: Results of the lab.
        size: Width and height.
        narrow: If True, the chart is for a narrow page.
        epsilon: Upper end of the ε axis.
        room: Right margin of a wide chart, for the names of lines.
    """
    axes = ErrorAxes.of(view.question.prepared_housing, epsilon)
    right = 12 if narrow else room
    plot = Plot.framed(size, (0, axes.epsilon), axes.error, left=44, right=right)
    plot.y_axis(axes.ticks, ERROR_NAME)
    plot.x_axis(round_ticks((0, epsilon), EPSILON_TICKS), "ε")
    return plot


def draw_baselines(plot: Plot, view: View, *, narrow: bool) -> None:
    """Draws the baselines with their names."""
    for line in ErrorAxes.of(view.question.prepared_housing, plot.x.high).baselines:
        ends = [(plot.x.low, line.error), (plot.x.high, line.error)]
        plot.line(ends, f"thin dashed s-{line.colour}")
        side: Anchor = "end" if line.is_at_end else "start"
        shift = -4 if line.is_at_end else 4 if narrow else 60
        plot.text(ends[line.is_at_end], line.words, "twin halo", side, (shift, -6))


def draw_band(
    plot: Plot, epsilons: Sequence[float], spreads: Sequence[Spread], colour: str
) -> None:
    """Draws the band from 5% to 95% of the errors, clipped to the axes."""
    top = plot.y.high
    kept = [
        (epsilon, spread)
        for epsilon, spread in zip(epsilons, spreads, strict=True)
        if epsilon <= plot.x.high
    ]
    upper = [(epsilon, min(top, spread.high)) for epsilon, spread in kept]
    lower = [(epsilon, min(top, spread.low)) for epsilon, spread in kept]
    plot.path([*upper, *lower[::-1]], f"band {BANDS[colour]}", close=True)


def draw_line(plot: Plot, points: Iterable[Point], css: str) -> None:
    """Draws the parts of a line that are inside the axes."""
    piece: list[Point] = []
    for x, y in points:
        if y > plot.y.high or x > plot.x.high:
            _finish(plot, piece, css)
            piece = []
        else:
            piece.append((x, y))
    _finish(plot, piece, css)


def draw_names(
    plot: Plot, ends: Sequence[tuple[float, str, str]], *, narrow: bool
) -> None:
    """Writes each line's name at its right end, without overlaps.

    Args:
        plot: The drawing.
        ends: Last value, name and colour of each line.
        narrow: If True, the names are in the corner, highest line first.
    """
    floor = math.inf
    for index, (value, name, colour) in enumerate(sorted(ends)):
        end = min(value, plot.y.high)
        css = f"{colour} halo"
        if narrow:
            corner = (plot.x.high, plot.y.high)
            down = 70 + 18 * (len(ends) - 1 - index)
            plot.text(corner, name, css, "end", (0, down))
            continue
        pixel = min(plot.y(end), floor)
        floor = pixel - 17
        shift = (10, pixel - plot.y(end) + 4.5)
        plot.text((plot.x.high, end), name, css, "start", shift)


def draw_reading(plot: Plot, epsilon: float, ranking: Iterable[RankedMethod]) -> None:
    """Marks the selected ε, and each method's median error at this ε."""
    plot.path([(epsilon, plot.y.low), (epsilon, plot.y.high)], "line thin s-ink dotted")
    for ranked in ranking:
        if ranked.spread.median <= plot.y.high:
            point = (epsilon, ranked.spread.median)
            plot.dot(point, f"f-{COLOURS[ranked.name]}", 4)


def courses(lines: Mapping[str, tuple[Sequence[float], Sequence[float]]]) -> str:
    """Returns the first and last value of each line of medians, as a sentence."""
    parts = [
        f"{SHORT_NAMES[name]} from {_two(errors[0])} to {_two(errors[-1])}"
        for name, (_, errors) in lines.items()
    ]
    return f"Median errors, from the least ε to the largest: {'; '.join(parts)}."


def spread_text(spread: Spread) -> str:
    """Returns a median and its band as text for a table."""
    return f"{_short(spread.median)} ({_short(spread.low)} – {_short(spread.high)})"


def _finish(plot: Plot, piece: list[Point], css: str) -> None:
    if len(piece) > 1:
        plot.line(piece, css)


def _two(error: float) -> str:
    return significant(error) if math.isfinite(error) else "no limit"


def _short(error: float) -> str:
    """Returns an error of few releases, with three digits."""
    return significant(error, 3) if error < FEW else mse(error)


def released(view: View) -> dict[float, list[Spread]]:
    """Returns {ε: errors of the non-iterative methods} for a table, in order of ε."""
    indices = np.linspace(0, len(EPSILONS) - 1, TABLE_EPSILONS).round().astype(int)
    spreads = {
        EPSILONS[index]: [view.sweeps[name].spreads[index] for name in METHODS]
        for index in indices
    }
    variant = view.question.variant
    spreads[view.question.epsilon] = [
        view.chosen[name][variant].spreads[0] for name in METHODS
    ]
    return dict(sorted(spreads.items()))

"""What the drawings of errors against ε share: axes, baselines, bands, lines, names."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from dpsgd_explorer.regression.comparison import EPSILONS, Spread
from dpsgd_explorer.web.figures.error_axes import COLOURS, ERROR_NAME, ErrorAxes
from dpsgd_explorer.web.figures.svg import Anchor, Plot, Point, round_ticks
from dpsgd_explorer.web.questions.regression import METHODS, TOP_EPSILON
from dpsgd_explorer.web.questions.regression_results import (
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
TABLE_EPSILONS = 8  # rows of a table, but for that of the question
NAME_ROOM = 92  # right of the axes of a wide drawing
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
    """Return axes of errors against ε, with both baselines.

    Args:
        view: What is drawn.
        size: Of the drawing.
        narrow: Whether it is for a narrow page.
        epsilon: Where the axis of ε ends.
        room: For the names of lines, right of a wide drawing's axes.
    """
    axes = ErrorAxes.of(view.question.prepared_housing, epsilon)
    right = 12 if narrow else room
    plot = Plot.framed(size, (0, axes.epsilon), axes.error, left=44, right=right)
    plot.y_axis(axes.ticks, ERROR_NAME)
    plot.x_axis(round_ticks((0, epsilon), EPSILON_TICKS), "ε")
    return plot


def draw_baselines(plot: Plot, view: View, *, narrow: bool) -> None:
    """Draw the errors that no ε changes, with their names."""
    for line in ErrorAxes.of(view.question.prepared_housing, plot.x.high).baselines:
        ends = [(plot.x.low, line.error), (plot.x.high, line.error)]
        plot.line(ends, f"thin dashed s-{line.colour}")
        side: Anchor = "end" if line.is_at_end else "start"
        shift = -4 if line.is_at_end else 4 if narrow else 60
        plot.text(ends[line.is_at_end], line.words, "twin halo", side, (shift, -6))


def draw_band(
    plot: Plot, epsilons: Sequence[float], spreads: Sequence[Spread], colour: str
) -> None:
    """Draw 5 to 95 % of the errors as far as the paper goes."""
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
    """Draw a line where it is on the paper; it ends at the edge and comes back."""
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
    """Write each line's name at its right end, none over another.

    Args:
        plot: The drawing.
        ends: Last value, name and colour of each line.
        narrow: Whether the names stand in the corner, the highest first.
    """
    floor = math.inf
    for place, (value, name, colour) in enumerate(sorted(ends)):
        end = min(value, plot.y.high)
        css = f"{colour} halo"
        if narrow:
            at = (plot.x.high, plot.y.high)
            down = 70 + 18 * (len(ends) - 1 - place)
            plot.text(at, name, css, "end", (0, down))
            continue
        pixel = min(plot.y(end), floor)
        floor = pixel - 17
        shift = (10, pixel - plot.y(end) + 4.5)
        plot.text((plot.x.high, end), name, css, "start", shift)


def draw_reading(plot: Plot, epsilon: float, ranking: Iterable[RankedMethod]) -> None:
    """Mark the ε that is looked at, and each method's median there."""
    plot.path([(epsilon, plot.y.low), (epsilon, plot.y.high)], "line thin s-ink dotted")
    for ranked in ranking:
        if ranked.spread.median <= plot.y.high:
            at = (epsilon, ranked.spread.median)
            plot.dot(at, f"f-{COLOURS[ranked.name]}", 4)


def courses(lines: Mapping[str, tuple[Sequence[float], Sequence[float]]]) -> str:
    """Return where each line of medians begins and ends, as a sentence."""
    parts = [
        f"{SHORT_NAMES[name]} from {_two(errors[0])} to {_two(errors[-1])}"
        for name, (_, errors) in lines.items()
    ]
    return f"Median errors, from the least ε to the largest: {'; '.join(parts)}."


def spread_text(spread: Spread) -> str:
    """Return a median and its band as a table prints them."""
    return f"{_short(spread.median)} ({_short(spread.low)} – {_short(spread.high)})"


def _finish(plot: Plot, piece: list[Point], css: str) -> None:
    if len(piece) > 1:
        plot.line(piece, css)


def _two(error: float) -> str:
    return significant(error) if math.isfinite(error) else "no limit"


def _short(error: float) -> str:
    """Return an error of few releases: three digits of it."""
    return significant(error, 3) if error < FEW else mse(error)


def released(view: View) -> dict[float, list[Spread]]:
    """Return the errors of what is released at once, by ε of a table's rows, rising."""
    places = np.linspace(0, len(EPSILONS) - 1, TABLE_EPSILONS).round().astype(int)
    spreads = {
        EPSILONS[at]: [view.sweeps[name].spreads[at] for name in METHODS]
        for at in places
    }
    variant = view.question.variant
    spreads[view.question.epsilon] = [
        view.chosen[name][variant].spreads[0] for name in METHODS
    ]
    return dict(sorted(spreads.items()))

"""Chart of test accuracy against ε or steps, with other runs for comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.charts.ticks import (
    Ends,
    error_height,
    error_range,
    error_ticks,
    nice_ticks,
)
from dpsgd_explorer.web.figures.run_charts.elastic import Axis, Elastic, Point
from dpsgd_explorer.web.questions.plan_preview import accuracy_range
from dpsgd_explorer.web.questions.rounding import percent

Data = dict[str, Any]
BEYOND = 1.1  # ratio of the end of the ε axis to the budget
LOW = 0.1  # share of the height above which the baseline's label fits below
# Labels of the budget: share of the height, class of the pages, px down.
BUDGET_AT = ((0.1, "only-wide", -5.5), (0.45, "only-narrow", 4.5))


@dataclass(frozen=True)
class Line:
    """Evaluations of one run, with a label and the style of the line."""

    evaluations: Sequence[Data]
    words: str
    css: str
    is_run: bool = False


def epsilon_axis(config: TrainingConfig) -> str:
    """Returns the label of the ε axis; a filter only guarantees the total ε."""
    return "ε counted by the filter" if config.is_filtered else "ε spent"


def _range(config: TrainingConfig, lines: Sequence[Line]) -> Ends:
    percents = [100 * e["test_accuracy"] for line in lines for e in line.evaluations]
    return error_range(accuracy_range(config.data), percents)


def accuracy_svg(config: TrainingConfig, plan: Data, lines: Sequence[Line]) -> Markup:
    """Returns the chart; the accuracy axis is logarithmic in the error.

    With scripts, the gauge below the chart has the ticks of ε.
    """
    ends, axis = _range(config, lines), plan["epsilon_axis"]
    wall = axis["budget"] if plan["private"] else 0.0
    end = BEYOND * wall if wall else 1.02 * plan["steps"]
    low, high = (error_height(value, ends) for value in ends)
    plot = Elastic(
        Axis(0, end, _ticks(axis, end), epsilon_axis(config) if wall else "step"),
        Axis(low, high, error_ticks(ends)),
        "on-gauge" if wall else "",
    )
    if wall:
        plot.bar((wall, end), (plot.y.low, plot.y.high), "f-wash-budget")
    plot.axes()
    if wall:
        plot.rule(wall, "s-budget")
        name = f"{axis['budget_word']} ε = {axis['budget_text']}"
        for share, css, down in BUDGET_AT:
            height = plot.y.low + share * (plot.y.high - plot.y.low)
            plot.text((wall, height), name, f"budget halo {css}", "end", (-10, down))
    _baseline(plot, config, ends)
    drawn = [(line, _points(line, plan, end, ends)) for line in lines]
    for line, points in drawn:
        plot.line(points, line.css)
        if points and line.is_run:
            plot.dot(points[-1], "f-private" if wall else "f-twin")
    _name(plot, drawn)
    return plot.svg(_sentence(lines))


def _ticks(axis: Data, end: float) -> list[tuple[float, str]]:
    """Returns the ticks of the ε axis, or of an axis of steps without privacy."""
    ticks = [(tick["epsilon"], tick["text"]) for tick in axis["ticks"]]
    return ticks or nice_ticks(end)


def _baseline(plot: Elastic, config: TrainingConfig, ends: Ends) -> None:
    """Draws the accuracy of always predicting the majority class."""
    share = config.data.majority
    if 100 * share <= ends[0]:
        return
    height = error_height(100 * share, ends)
    plot.level(height, "s-faint thin dotted")
    middle = plot.x.low + 0.55 * (plot.x.high - plot.x.low)
    down = 14 if plot.y.share(height) > LOW else -6
    is_table = config.table is not None
    for always, css in (("always ", "only-wide"), ("", "only-narrow")):
        name = "guessing" if is_table else f"{always}the majority class"
        words = f"{name}, {percent(share, 1)} %"
        plot.text((middle, height), words, css, "middle", (0, down))


def _points(line: Line, plan: Data, end: float, ends: Ends) -> list[Point]:
    """Returns the points of a line; runs without ε are drawn at ``drawn_at``."""
    points = []
    for event in line.evaluations:
        x = event["step"] if not plan["private"] else event["epsilon"]
        x = event.get("drawn_at") if x is None else x
        if x is not None and x <= end:
            points.append((x, error_height(100 * event["test_accuracy"], ends)))
    return points


def _name(plot: Elastic, drawn: list[tuple[Line, list[Point]]]) -> None:
    """Writes the run's name at its last point, and other names below the lowest point.

    Accuracies rise, so the space below is free.  A narrow page omits the other names.
    """
    ends = [(line, points[-1]) for line, points in drawn if points]
    for line, point in ends:
        if line.is_run:
            anchor, right = (
                ("start", 12) if plot.x.share(point[0]) < 0.5 else ("end", -12)
            )
            down = -22 if plot.y.share(point[1]) < 0.15 else 26
            css = f"{_whose(line)} halo"
            plot.text(point, _reached(line), css, anchor, (right, down))
    others = [(line, point) for line, point in ends if not line.is_run]
    if not others:
        return
    x = max(point[0] for _, point in others)
    low = min(point[1] for _, point in others)
    for index, (line, _) in enumerate(sorted(others, key=lambda end: -end[1][1])):
        css = f"{_whose(line)} name halo only-wide"
        shift = (-14, 40 + 17 * index)
        plot.text((x, low), _reached(line), css, "end", shift)


def _whose(line: Line) -> str:
    return "twin" if "twin" in line.css else "private"


def _reached(line: Line) -> str:
    return f"{line.words}, {percent(line.evaluations[-1]['test_accuracy'], 1)} %"


def _sentence(lines: Sequence[Line]) -> str:
    if not lines:
        return "Test accuracy: no run yet."
    ends = [
        f"{line.words} {percent(line.evaluations[-1]['test_accuracy'], 1)} percent"
        for line in lines
        if line.evaluations
    ]
    return f"Test accuracy ends at: {', '.join(ends)}."

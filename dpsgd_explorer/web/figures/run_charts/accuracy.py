"""Test accuracy against what it cost, with other runs behind it."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.figures.svg import Plot, Point, round_ticks
from dpsgd_explorer.web.questions.plan_preview import accuracy_range
from dpsgd_explorer.web.questions.rounding import limit, percent

Data = dict[str, Any]
Size = tuple[int, int]
BEYOND = 1.1  # the axis of ε goes on past the budget
# Percent right, the most wanted first; static/js/charts/accuracy_axis.js has the same
# ticks, and a test compares both.
TICKS = (99, 98, 95, 90, 85, 80, 70, 75, 60, 50, 0)
APART = 0.08  # of the axis: ticks closer than that touch
MOST = 0.995


@dataclass(frozen=True)
class Line:
    """Evaluations of one run, the words at its end and how it is drawn."""

    evaluations: Sequence[Data]
    words: str
    css: str
    is_run: bool = False


def budget_of(config: TrainingConfig, plan: Data) -> tuple[float, str]:
    """Return where the wall of ε stands, and its name.

    It is where the run is stopped, what it may spend, or what it will spend.
    """
    if config.is_filtered:
        return config.filter_epsilon or 0.0, "budget"
    if config.stop_at_epsilon and plan["last_step"] < plan["steps"]:
        return config.stop_at_epsilon, "stop at"
    if config.target_epsilon:
        return config.target_epsilon, "budget"
    return float(plan["epsilon"]), "planned"


def epsilon_axis(config: TrainingConfig) -> str:
    """Return what the ε of evaluations is: of a filter only the whole is a promise."""
    return "ε counted by the filter" if config.is_filtered else "ε spent"


def _height(share: float) -> float:
    """Return where an accuracy stands: by the ratio of errors."""
    return -math.log10(1 - min(share, MOST))


def _range(config: TrainingConfig, lines: Sequence[Line]) -> tuple[float, float]:
    floor, ceiling = accuracy_range(config.data)
    shares = [e["test_accuracy"] for line in lines for e in line.evaluations]
    low, high = min([floor, *shares]), max([ceiling, *shares])
    return (
        math.floor(10 * low) / 10 if low < floor else floor,
        MOST if high > ceiling else ceiling,
    )


def accuracy_svg(
    config: TrainingConfig, plan: Data, lines: Sequence[Line], size: Size
) -> Markup:
    """Return the chart; the axis of accuracy is one of errors, by ratio."""
    low, high = _range(config, lines)
    span = (_height(low), _height(high))
    wall, word = budget_of(config, plan) if plan["private"] else (0.0, "")
    end = BEYOND * wall if wall else 1.02 * plan["steps"]
    plot = Plot.framed(size, (0, end), span, left=44, right=16, top=28, bottom=44)
    plot.y_axis(error_ticks(low, high), "%")
    if wall:
        plot.bar((wall, end), span, "f-wash-budget")
        plot.path([(wall, span[0]), (wall, span[1])], "line s-budget")
        name = f"{word} ε = {limit(wall)}"
        plot.text((wall, span[0]), name, "budget halo", "end", (-8, -18))
    plot.x_axis(
        round_ticks((0, wall or end), 6), epsilon_axis(config) if wall else "step"
    )
    for line in lines:
        points = _points(line, plan, end)
        plot.line(points, line.css)
        if points and line.is_run:
            plot.dot(points[-1], "f-private" if wall else "f-twin")
    _name(plot, [(line, _points(line, plan, end)) for line in lines])
    return plot.svg(_sentence(lines))


def error_ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Return heights and texts of the ticks between two accuracies, at most 1."""
    least_gap = APART * (_height(high) - _height(low))
    shares = [low, *(tick / 100 for tick in TICKS if low <= tick / 100 <= high)]
    kept: list[float] = []
    for share in shares:
        if all(abs(_height(share) - _height(each)) >= least_gap for each in kept):
            kept.append(share)
    return [(_height(share), f"{100 * share:g}") for share in sorted(kept)]


def _points(line: Line, plan: Data, end: float) -> list[Point]:
    """Return the points of a line; what spends nothing stands at the plan's ε."""
    points = []
    for event in line.evaluations:
        x = event["step"] if not plan["private"] else event["epsilon"]
        x = event.get("drawn_at") if x is None else x
        x = _spent_at(plan["curve"], event["step"]) if x is None else x
        if x is not None and x <= end:
            points.append((x, _height(event["test_accuracy"])))
    return points


def _spent_at(curve: Data, step: int) -> float | None:
    """Return the place of a step on the axis of ε, by a line between listed steps."""
    steps, spent = curve["steps"], curve["epsilon"]
    after = bisect_left(steps, step)
    if after == len(steps):
        return None
    if after == 0:
        return float(spent[0])
    share = (step - steps[after - 1]) / (steps[after] - steps[after - 1])
    return float(spent[after - 1] + share * (spent[after] - spent[after - 1]))


def _name(plot: Plot, drawn: list[tuple[Line, list[Point]]]) -> None:
    """Write the names below the lowest end: accuracies rise, there is room."""
    ends = [(line, points[-1]) for line, points in drawn if points]
    if not ends:
        return
    x = max(at[0] for _, at in ends)
    low = min(at[1] for _, at in ends)
    for place, (line, _) in enumerate(sorted(ends, key=lambda end: -end[1][1])):
        share = percent(line.evaluations[-1]["test_accuracy"], 1)
        css = "twin" if "twin" in line.css else "private"
        words = f"{line.words}, {share} %"
        plot.text((x, low), words, f"{css} halo", "end", (-12, 36 + 17 * place))


def _sentence(lines: Sequence[Line]) -> str:
    if not lines:
        return "Test accuracy: no run yet."
    ends = [
        f"{line.words} {percent(line.evaluations[-1]['test_accuracy'], 1)} percent"
        for line in lines
        if line.evaluations
    ]
    return f"Test accuracy ends at: {', '.join(ends)}."

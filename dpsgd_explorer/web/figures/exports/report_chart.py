"""SVG charts of a report: lines, bands, bars, budget walls and baselines.

Each chart is drawn from the plotly figure that a report can embed instead.  Values that
are infinite, NaN or below the axis are not drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from markupsafe import Markup

from dpsgd_explorer.web.figures.svg import Plot, Point, round_ticks

WIDE, NARROW = (904, 340), (342, 280)
ROOM = 1.04  # ratio of the end of an axis to the largest value
#: Values of the light theme's --series-… tokens, for plotly charts without style sheet.
PRINTED = {
    "private": "#0072b2",
    "twin": "#595959",
    "budget": "#d55e00",
    "good": "#007a5a",
    "attack": "#aa4499",
}
SERIES = {color: name for name, color in PRINTED.items()}
ROW = 34  # px, height of a bar's row


def drawn(figure: dict[str, Any], label: str, size: tuple[int, int] = WIDE) -> Markup:
    """Returns the SVG; ``label`` is its text alternative."""
    traces = figure["data"]
    if traces and traces[0]["type"] == "bar":
        return _bars(traces[0], figure["layout"], label, size)
    return _lines(traces, figure["layout"], label, size)


def _lines(
    traces: Sequence[Any], layout: dict[str, Any], label: str, size: tuple[int, int]
) -> Markup:
    lines = [_finite(zip(trace["x"], trace["y"], strict=True)) for trace in traces]
    walls = [shape for shape in layout.get("shapes", ()) if shape.get("yref")]
    baselines = [shape for shape in layout.get("shapes", ()) if shape.get("xref")]
    xs = [x for line in lines for x, _ in line] + [wall["x0"] for wall in walls]
    ends = layout["yaxis"].get("range") or _ends([y for line in lines for _, y in line])
    plot = Plot.framed(
        size, (0, ROOM * max(xs, default=0.0) or 1), tuple(ends), left=46
    )
    plot.y_axis(
        round_ticks((plot.y.low, plot.y.high), 6), layout["yaxis"]["title"]["text"]
    )
    plot.x_axis(round_ticks((0, plot.x.high), 6), layout["xaxis"]["title"]["text"])
    for wall in walls:
        _wall(plot, wall)
    for line in baselines:
        if plot.y.low <= line["y0"] <= plot.y.high:
            level = [(0, line["y0"]), (plot.x.high, line["y0"])]
            plot.line(level, "s-twin dashed thin")
            plot.text(level[1], line["label"]["text"], "halo", "end", (-4, -6))
    *edges, last = [
        [p for p in line if plot.y.low <= p[1] <= plot.y.high] for line in lines
    ]
    if len(edges) == 2:
        plot.path([*edges[0], *reversed(edges[1])], "f-area band", close=True)
    plot.line(last, "s-private")
    if last:
        plot.dot(last[-1], "f-private")
    return plot.svg(label)


def _wall(plot: Plot, shape: dict[str, Any]) -> None:
    """Draws the budget as a vertical line, and shades larger ε."""
    budget = shape["x0"]
    plot.bar((budget, plot.x.high), (plot.y.low, plot.y.high), "f-wash-budget")
    plot.line([(budget, plot.y.low), (budget, plot.y.high)], "s-budget")
    words = shape["label"]["text"]
    plot.text((budget, plot.y.low), words, "budget halo", "end", (-8, -10))


def _bars(
    trace: dict[str, Any], layout: dict[str, Any], label: str, size: tuple[int, int]
) -> Markup:
    names, values = trace["x"], trace["y"]
    height = ROW * len(names) + 70
    most = ROOM * max(values, default=0.0) or 1.0
    size = (size[0], height)
    plot = Plot.framed(size, (0, most), (len(names), 0), left=130, right=70)
    plot.x_axis(round_ticks((0, most), 6), layout["yaxis"]["title"]["text"])
    colors = trace["marker"]["color"]
    for i, (name, value, color) in enumerate(zip(names, values, colors, strict=True)):
        css = f"f-{SERIES[color]}"
        plot.bar((0, value), (i + 0.2, i + 0.8), css)
        plot.text((0, i + 0.5), name, "ink", "end", (-10, 5))
        plot.text((value, i + 0.5), f"{value:.2f}", "ink", "start", (8, 5))
    return plot.svg(label)


def _finite(points: Iterable[tuple[Any, Any]]) -> list[Point]:
    return [
        (x, y)
        for x, y in points
        if x is not None and y is not None and math.isfinite(x) and math.isfinite(y)
    ]


def _ends(values: list[float]) -> tuple[float, float]:
    """Returns the ends of an axis that fits all but the first quarter of the values."""
    late = values[len(values) // 4 :] or [0.0]
    low, high = min(late), max(values, default=1.0)
    room = 0.08 * (high - low) or 0.05 * abs(high) or 1.0
    return max(0.0, low - room), high + room

"""Charts of gradient norms and other diagnostics, which are not private."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from markupsafe import Markup

from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.charts.run_charts import RunChart
from dpsgd_explorer.web.charts.ticks import nice_ceiling, nice_ticks
from dpsgd_explorer.web.figures.run_charts.elastic import Axis, Elastic

Data = dict[str, Any]
EDGES = tuple(
    10 ** ((i - 20) / 10) for i in range(41)
)  # edges of the bins in units of C
TICK_WIDTH = 56  # px for a label such as 0.0001 with a gap
AREA_WIDTH = 210  # px, minimum width of the chart area on a wide page


def norms_svg(
    config: TrainingConfig, edges: Sequence[float], steps: Sequence[Data]
) -> Markup:
    """Returns the last recorded histogram of gradient norms, with the bound C.

    Args:
        config: The settings.
        edges: Edges of the bins, one more than counts; () before a run.
        steps: Data of the step events.
    """
    bound = config.max_grad_norm
    counts = next((c for s in reversed(steps) if (c := _counts(s))), [])
    logs = [math.log10(e) for e in edges or [bound * edge for edge in EDGES]]
    top = count_top(counts, config.expected_batch_size)
    low, high = logs[0], logs[-1]
    powers = range(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1)
    ticks = [(float(power), f"{10.0**power:g}") for power in powers]
    plot = Elastic(
        Axis(low, high, ticks, "gradient norm (L2), log scale"),
        Axis(0, top, nice_ticks(top, 4)),
        "high",
    )
    plot.axes(every=math.ceil(len(ticks) * TICK_WIDTH / AREA_WIDTH))
    log_bound = math.log10(bound)
    for (left, right), count in zip(pairwise(logs), counts, strict=False):
        css = "f-area" if config.private and left >= log_bound else "f-private"
        gap = 0.07 * (right - left)
        plot.bar((left + gap, right - gap), (0, count), css)
    if config.private:
        plot.rule(log_bound, "s-ink")
        anchor, shift = ("start", 8) if low + high > 2 * log_bound else ("end", -8)
        plot.text((log_bound, top), f"C = {bound:g}", "strong", anchor, (shift, -20))
    return plot.svg("Gradient norms around the clipping bound.")


def count_top(counts: Sequence[int], expected_batch_size: int) -> float:
    """Returns a round upper end of the count axis, above the peak."""
    peak = max(counts[1:-1], default=0)
    top = nice_ceiling(expected_batch_size / 8)
    if peak > top:
        return nice_ceiling(peak)
    return nice_ceiling(1.5 * peak) if 0 < peak < top / 5 else top


def _counts(step: Data) -> list[int]:
    return (step.get("diagnostics") or {}).get("norm_counts") or []


def series_svg(
    chart: RunChart, plan: Data, events: Mapping[str, Sequence[Data]]
) -> Markup:
    """Returns the lines of a chart along the steps.

    Args:
        chart: Description of the chart.
        plan: Answer of /api/v1/privacy/plan for the settings.
        events: Data of the run's events, by kind.
    """
    top = chart.top(plan["axes"][chart.name], dict(events))
    last = plan["last_step"] or plan["steps"]
    plot = Elastic(
        Axis(0, 1.02 * last, nice_ticks(last, 4), "step"),
        Axis(0, top, nice_ticks(top, 3)),
    )
    plot.axes()
    whose = "s-private" if plan["private"] else "s-twin"
    for series in chart.series:
        dashed = "" if plan["private"] else " dashed"
        css = f"{whose}{dashed}" if series.is_main else f"{whose} thin soft"
        plot.line(series.points(events[series.kind]), css)
    return plot.svg(f"{chart.title} along the steps.")

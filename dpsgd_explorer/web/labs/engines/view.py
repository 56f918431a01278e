"""View of runs of kind "engines": lists, page and report."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from dpsgd_explorer.experiments.engines_config import ORDINARY, EnginesConfig
from dpsgd_explorer.web.figures.exports.report_chart import PRINTED
from dpsgd_explorer.web.forms.form import to_query
from dpsgd_explorer.web.labs.engines.figures import MIB, comparison_picture
from dpsgd_explorer.web.recorded.files import recording
from dpsgd_explorer.web.run_views.base import (
    Points,
    RunView,
    Section,
    Settings,
    Summary,
)


@cache
def recorded_comparison() -> tuple[EnginesConfig, Points]:
    """Returns the settings and the events of the recorded comparison."""
    stored = recording("recorded", Path(__file__).parent)
    return EnginesConfig.parse(stored["config"]), stored["events"]


def results_of(read: Callable[[str], Points]) -> dict[str, Any]:
    """Returns the results of a comparison: figure, rejections and layers.

    Args:
        read: Returns the data of the events of a kind, in order.
    """
    phases, evaluations = read("phase"), read("evaluation")
    return {
        "picture": comparison_picture(phases[-1], evaluations) if evaluations else None,
        "refused": {e["engine"]: e["refused"] for e in evaluations if e["refused"]},
        "layers": next((e["layers"] for e in evaluations if e.get("layers")), []),
    }


def _bars(evaluations: Points, unit: str, values: list[float]) -> dict[str, Any]:
    names = [point["engine"] for point in evaluations]
    colors = [PRINTED["twin" if name == ORDINARY else "private"] for name in names]
    bar = {"type": "bar", "x": names, "y": values, "marker": {"color": colors}}
    axis = {"title": {"text": unit}, "gridcolor": "#d9dee3", "rangemode": "tozero"}
    margin = {"l": 70, "r": 20, "t": 20, "b": 60}
    return {
        "data": [bar],
        "layout": {"yaxis": axis, "margin": margin, "plot_bgcolor": "white"},
    }


class EnginesView(RunView):
    """View of runs of kind "engines"."""

    template = "runs/engines.html"
    config = EnginesConfig
    claims = None
    columns = (
        ("engine", "engine", "{}"),
        ("difference", "largest difference", "{:.0e}"),
        ("milliseconds", "ms", "{:.2f}"),
        ("ratio", "time / ordinary", "{:.2f}"),
        ("peak_bytes", "bytes", "{:,}"),
    )
    more = (
        "engine",
        "milliseconds",
        "ratio",
        "ratio_low",
        "ratio_high",
        "peak_bytes",
        "refused",
    )
    missing = "–"
    titled = frozenset({"kind", "model", "width", "batch_size", "sequence_length"})

    def title(self, config: Settings) -> str:
        sizes = f"d = {config['width']}, B = {config['batch_size']}"
        if EnginesConfig.parse(config).measured.reads_sequences:
            sizes += f", T = {config['sequence_length']}"
        return f"Engines, {config['model']}, {sizes}"

    def subject(self, config: Settings) -> str:
        settings = EnginesConfig.parse(config)
        label, size = settings.measured.label, f"{settings.parameters:,} parameters"
        return f"The engines compared: {label}, {size}"

    def result(self, summary: Summary) -> str:
        """Returns the largest difference between the engines' gradients."""
        difference = summary.get("difference")
        return "" if difference is None else f"{difference:.0e} apart"

    def page(self, config: EnginesConfig) -> dict[str, Any]:
        """Returns the variables of the template."""
        return {"query": to_query(config)}

    def page_data(self, _config: EnginesConfig) -> dict[str, Any]:
        """Returns {}, since the server draws the chart."""
        return {}

    def standing(
        self, _config: EnginesConfig, read: Callable[[str], Points]
    ) -> dict[str, Any]:
        """Returns the results of the evaluations so far."""
        return results_of(read)

    def sections(
        self, _config: EnginesConfig, _steps: Points, evaluations: Points
    ) -> list[Section]:
        """Returns charts of time and memory relative to the ordinary step."""
        measured = [point for point in evaluations if not point["refused"]]
        return [
            Section(
                "Time of a step",
                "CPU time of one thread relative to the ordinary step, measured in "
                "turns.",
                _bars(measured, "ratio", [point["ratio"] for point in measured]),
            ),
            Section(
                "Memory of a step",
                "Peak memory that torch allocates during the step, in MiB.",
                _bars(
                    measured, "MiB", [point["peak_bytes"] / MIB for point in measured]
                ),
            ),
        ]


VIEW = EnginesView()

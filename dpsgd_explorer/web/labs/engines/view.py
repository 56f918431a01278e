"""Runs of kind "engines" as they are listed, shown and reported."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from dpsgd_explorer.experiments.engines_config import ORDINARY, EnginesConfig
from dpsgd_explorer.web.forms.form import to_query
from dpsgd_explorer.web.labs.engines.figures import MIB, comparison_picture
from dpsgd_explorer.web.recorded.files import recording
from dpsgd_explorer.web.run_views.base import (
    PRINTED,
    Points,
    RunView,
    Section,
    Settings,
    Summary,
)


@cache
def recorded_comparison() -> tuple[EnginesConfig, Points]:
    """Return the recorded comparison of the engines: its settings and its events."""
    stored = recording("recorded", Path(__file__).parent)
    return EnginesConfig.parse(stored["config"]), stored["events"]


def results_of(read: Callable[[str], Points]) -> dict[str, Any]:
    """Return what a comparison found so far: its picture, rejections and layers.

    Args:
        read: Returns the data of the events of a kind, in order.
    """
    phases, found = read("phase"), read("evaluation")
    return {
        "picture": comparison_picture(phases[-1], found) if found else None,
        "refused": {one["engine"]: one["refused"] for one in found if one["refused"]},
        "layers": next((one["layers"] for one in found if one.get("layers")), []),
    }


def _bars(found: Points, unit: str, values: list[float]) -> dict[str, Any]:
    names = [point["engine"] for point in found]
    colors = ["#8a949e" if name == ORDINARY else PRINTED["private"] for name in names]
    bar = {"type": "bar", "x": names, "y": values, "marker": {"color": colors}}
    axis = {"title": {"text": unit}, "gridcolor": "#d9dee3", "rangemode": "tozero"}
    margin = {"l": 70, "r": 20, "t": 20, "b": 60}
    return {
        "data": [bar],
        "layout": {"yaxis": axis, "margin": margin, "plot_bgcolor": "white"},
    }


class EnginesView(RunView):
    """Runs of kind "engines"."""

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
        """Return what the engines are compared on, in short."""
        sizes = f"d = {config['width']}, B = {config['batch_size']}"
        if EnginesConfig.parse(config).measured.reads_sequences:
            sizes += f", T = {config['sequence_length']}"
        return f"Engines, {config['model']}, {sizes}"

    def subject(self, config: Settings) -> str:
        """Return what the engines are compared on."""
        given = EnginesConfig.parse(config)
        label, size = given.measured.label, f"{given.parameters:,} parameters"
        return f"The engines compared: {label}, {size}"

    def result(self, summary: Summary) -> str:
        """Return how far the engines are apart."""
        difference = summary.get("difference")
        return "" if difference is None else f"{difference:.0e} apart"

    def page(self, config: EnginesConfig) -> dict[str, Any]:
        """Return what the page says beside the run."""
        return {"query": to_query(config)}

    def page_data(self, _config: EnginesConfig) -> dict[str, Any]:
        """Return nothing: the server draws the chart."""
        return {}

    def standing(
        self, _config: EnginesConfig, read: Callable[[str], Points]
    ) -> dict[str, Any]:
        """Return what was found so far."""
        return results_of(read)

    def sections(
        self, _config: EnginesConfig, _steps: Points, evaluations: Points
    ) -> list[Section]:
        """Return time and memory beside the ordinary step's."""
        found = [point for point in evaluations if not point["refused"]]
        return [
            Section(
                "Time of a step",
                "CPU time of one thread relative to the ordinary step, measured in "
                "turns.",
                _bars(found, "ratio", [point["ratio"] for point in found]),
            ),
            Section(
                "Memory of a step",
                "Peak memory that torch allocates during the step, in MiB.",
                _bars(found, "MiB", [point["peak_bytes"] / MIB for point in found]),
            ),
        ]


VIEW = EnginesView()

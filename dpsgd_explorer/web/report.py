"""A run as one HTML file that needs neither network nor server."""

from __future__ import annotations

import importlib.metadata
from typing import Any

import plotly.io
from flask import render_template

from dpsgd_explorer import __version__
from dpsgd_explorer.runs.records import Run
from dpsgd_explorer.training.catalogue import DATA_SETS, MODELS
from dpsgd_explorer.training.config import TrainingConfig
from dpsgd_explorer.web.privacy_answers import Epsilon
from dpsgd_explorer.web.run_answers import LogEntry, RunSummary

HEIGHT_PX = 420
SERIES = "#0072b2"


def report(run: Run, log: list[LogEntry], address: str) -> str:
    """Return the page.

    Args:
        run: What was asked for and what came of it.
        log: Its events, oldest first.
        address: Where the run was shown when the report was made.
    """
    figures = [accuracy_figure(log), loss_figure(log)]
    charts = [
        plotly.io.to_html(
            figure,
            include_plotlyjs=index == 0,  # 4.8 MB: once is enough
            full_html=False,
            validate=False,
            default_height=f"{HEIGHT_PX}px",
            config={"displaylogo": False, "responsive": True},
        )
        for index, figure in enumerate(figures)
    ]
    return render_template(
        "exports/report.html",
        run=run,
        address=address,
        charts=charts,
        title=title(run),
        privacy=RunSummary.of(run, "").privacy,
        evaluations=[_row(run, entry) for entry in log if entry.kind == "evaluation"],
        settings=_settings(run),
        program=f"DP-SGD Explorer {__version__}",
        plotly=f"plotly {importlib.metadata.version('plotly')}",
    )


def title(run: Run) -> str:
    """Return what the run is called, or what was trained on what."""
    model = MODELS[run.config["model"]].label
    return run.name or f"{model} on {DATA_SETS[run.config['dataset']].label}"


def accuracy_figure(log: list[LogEntry]) -> dict[str, Any]:
    """Return test accuracy against epsilon; against steps without a guarantee."""
    points = [entry.data for entry in log if entry.kind == "evaluation"]
    private = all(point["epsilon"] is not None for point in points)
    across = ("epsilon", "ε spent") if private else ("step", "step")
    return _figure(
        x=[point[across[0]] for point in points],
        y=[point["test_accuracy"] for point in points],
        x_title=across[1],
        y_title="test accuracy",
    )


def loss_figure(log: list[LogEntry]) -> dict[str, Any]:
    """Return the loss of the drawn batches along the steps; it is not private."""
    points = [entry.data for entry in log if entry.kind == "step"]
    return _figure(
        x=[point["step"] for point in points],
        y=[point["diagnostics"]["loss"] for point in points],
        x_title="step",
        y_title="training loss (not private)",
    )


def _figure(
    *, x: list[Any], y: list[Any], x_title: str, y_title: str
) -> dict[str, Any]:
    line = {"type": "scatter", "mode": "lines+markers", "x": x, "y": y}
    axes = {"zeroline": False, "gridcolor": "#d9dee3"}
    return {
        "data": [line | {"line": {"color": SERIES}, "marker": {"size": 4}}],
        "layout": {
            "xaxis": axes | {"title": {"text": x_title}, "rangemode": "tozero"},
            "yaxis": axes | {"title": {"text": y_title}},
            "margin": {"l": 70, "r": 20, "t": 20, "b": 60},
            "plot_bgcolor": "white",
        },
    }


def _row(run: Run, entry: LogEntry) -> dict[str, Any]:
    spent = entry.data["epsilon"]
    epsilon = Epsilon.spent(
        float("inf") if spent is None else spent,
        run.config["accountant"],
        run.config["delta"],
    )
    return entry.data | {"epsilon_text": epsilon.epsilon_text}


def _settings(run: Run) -> list[tuple[str, str, Any]]:
    """Return label, name and value of what was asked for."""
    return [
        (field.title or name, name, run.config[name])
        for name, field in TrainingConfig.model_fields.items()
        if run.config.get(name) is not None
    ]

"""A run as one HTML file that needs neither network nor server."""

from __future__ import annotations

import importlib.metadata
from typing import Any

import plotly.io
from flask import render_template

from dpsgd_explorer import __version__
from dpsgd_explorer.experiments.kinds import KINDS, parse
from dpsgd_explorer.runs.store.records import Run
from dpsgd_explorer.web.run_views.base import RunView
from dpsgd_explorer.web.run_views.models import LogEntry, RunSummary
from dpsgd_explorer.web.run_views.registry import VIEWS

HEIGHT_PX = 420


def report(run: Run, log: list[LogEntry], address: str) -> str:
    """Return the page.

    Args:
        run: What was asked for and what came of it.
        log: Its events, oldest first.
        address: Where the run was shown when the report was made.
    """
    view = VIEWS[run.kind]
    evaluations = [entry.data for entry in log if entry.kind == "evaluation"]
    steps = [entry.data for entry in log if entry.kind == "step"]
    sections = view.sections(parse(run.config), steps, evaluations)
    return render_template(
        "exports/report.html",
        run=run,
        address=address,
        sections=sections,
        charts=[_chart(section.figure, i) for i, section in enumerate(sections)],
        title=run.name or view.subject(run.config),
        spends=view.spends,
        privacy=RunSummary.of(run, "").privacy,
        columns=view.columns,
        evaluations=[_row(view, run, point) for point in evaluations],
        settings=_settings(run),
        program=f"DP-SGD Explorer {__version__}",
        plotly=f"plotly {importlib.metadata.version('plotly')}",
    )


def _chart(figure: dict[str, Any], index: int) -> str:
    html: str = plotly.io.to_html(
        figure,
        include_plotlyjs=index == 0,  # 4.8 MB: once is enough
        full_html=False,
        validate=False,
        default_height=f"{HEIGHT_PX}px",
        config={"displaylogo": False, "responsive": True},
    )
    return html


def _row(view: RunView, run: Run, point: dict[str, Any]) -> list[str]:
    """Return what was reached at one point, as printed; an infinite value is ∞."""
    spent = []
    if view.spends:
        spent = [view.spent(point["epsilon"], run.config).epsilon_text]
    reached = (
        view.missing if point[name] is None else form.format(point[name])
        for name, _, form in view.columns
    )
    return [str(point["step"]), *spent, *reached]


def _settings(run: Run) -> list[tuple[str, str, Any]]:
    """Return label, name and value of what was asked for."""
    return [
        (field.title or name, name, run.config[name])
        for name, field in KINDS[run.kind].config.model_fields.items()
        if name != "kind" and run.config.get(name) is not None
    ]

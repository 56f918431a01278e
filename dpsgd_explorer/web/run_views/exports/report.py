"""Report of a run as one HTML file that works offline.

The charts are SVG, or on request interactive plotly charts with the plotly script.
"""

from __future__ import annotations

import importlib.metadata
import json
from functools import cache, partial
from typing import Any

from flask import render_template
from markupsafe import Markup

from dpsgd_explorer import __version__
from dpsgd_explorer.experiments.events import changes_of
from dpsgd_explorer.experiments.kinds import parse
from dpsgd_explorer.experiments.own_table import (
    COLUMN_KINDS,
    IGNORED,
    NUMBERS,
    OwnTable,
)
from dpsgd_explorer.runs.store.records import Run
from dpsgd_explorer.web.figures.exports.report_chart import NARROW, WIDE, drawn
from dpsgd_explorer.web.forms.fields import text_of
from dpsgd_explorer.web.http.assets import FRONT_DIR
from dpsgd_explorer.web.run_views.audit_words import AuditWords
from dpsgd_explorer.web.run_views.base import RunView, Section
from dpsgd_explorer.web.run_views.models import LogEntry, RunSummary
from dpsgd_explorer.web.run_views.registry import VIEWS

HEIGHT_PX = 420
TABLE = "table"  # setting with the schema of an own table, which has its own section
BOTH = '<div class="only-wide">{}</div><div class="only-narrow">{}</div>'
SHEETS = ("tokens.css", "base.css")


def report(
    run: Run, log: list[LogEntry], address: str, *, with_plotly: bool = False
) -> str:
    """Returns the HTML of the report.

    Args:
        run: The run.
        log: Log of the run, oldest entry first.
        address: Address of the run's page; "" if others cannot open it.
        with_plotly: If True, the charts are interactive, and the file has 4.8 MB.
    """
    view = VIEWS[run.kind]
    evaluations = _data(log, "evaluation")
    steps = _data(log, "step")
    config = parse(run.config)
    sections = view.sections(config, steps, evaluations)
    spent = RunSummary.of(run, "").privacy
    phases = _data(log, "phase")
    return render_template(
        "exports/report.html",
        run=run,
        address=address,
        config=config,
        results=view.results,
        standing=view.standing(config, partial(_data, log)) if view.results else {},
        sections=sections,
        charts=[
            _chart(section.figure, i) if with_plotly else _drawing(section)
            for i, section in enumerate(sections)
        ],
        styles=_styles(),
        statement=view.claims.statement(run, spent, phases) if view.claims else "",
        title=run.name or view.subject(run.config),
        spends=view.kind.spends,
        is_changed=bool(changes_of(phases)),
        privacy=spent,
        audit=AuditWords.of(run),
        columns=view.columns,
        evaluations=[_row(view, run, point) for point in evaluations],
        settings=_settings(run),
        table_columns=_table_columns(config.own_table),
        program=f"DP-SGD Explorer {__version__}",
        plotly=f"plotly {importlib.metadata.version('plotly')}" if with_plotly else "",
    )


def _data(log: list[LogEntry], kind: str) -> list[dict[str, Any]]:
    """Returns the data of all events of a kind, in order."""
    return [entry.data for entry in log if entry.kind == kind]


@cache
def _styles() -> Markup:
    """Returns the site's style sheets, which contain no visitor data."""
    folder = FRONT_DIR / "static" / "css"
    texts = [(folder / name).read_text(encoding="utf-8") for name in SHEETS]
    return Markup("\n".join(texts))


def _drawing(section: Section) -> Markup:
    wide, narrow = (drawn(section.figure, section.heading, s) for s in (WIDE, NARROW))
    return Markup(BOTH).format(wide, narrow)


def _chart(figure: dict[str, Any], index: int) -> str:
    import plotly.io  # takes 0.1 s, so not imported at the start of the site

    html: str = plotly.io.to_html(
        figure,
        include_plotlyjs=index == 0,  # 4.8 MB, so only with the first chart
        full_html=False,
        validate=False,
        default_height=f"{HEIGHT_PX}px",
        config={"displaylogo": False, "responsive": True},
    )
    return html


def _row(view: RunView, run: Run, point: dict[str, Any]) -> list[str]:
    """Returns the values of one evaluation as text; an infinite value is ∞."""
    spent = []
    if view.kind.spends:
        spent = [view.spent(point["epsilon"], run.config).epsilon_text]
    reached = (
        view.missing
        if point[name] is None
        else form.format(point[name]).replace("%", " %")
        for name, _, form in view.columns
    )
    return [str(point["step"]), *spent, *reached]


def _settings(run: Run) -> list[tuple[str, str, str]]:
    """Returns label, value as the form writes it, and name and value of each setting.

    The last text is as in the other exports: ``name = JSON value``.
    """
    view, rows = VIEWS[run.kind], []
    for name, field in view.config.model_fields.items():
        value = run.config.get(name)
        if name in ("kind", TABLE) or value is None:
            continue
        shown = view.fields.get(name)
        words = shown.in_words(value) if shown else str(value)
        code = f"{name} = {json.dumps(value, ensure_ascii=False)}"
        rows.append((field.title or name, words, code))
    return rows


def _table_columns(table: OwnTable | None) -> list[tuple[str, str, str]]:
    """Returns name, content, and bounds or values of each used column of a table."""
    if table is None:
        return []
    return [
        (
            column.name,
            COLUMN_KINDS[column.kind],
            f"{text_of(column.low)} to {text_of(column.high)}"
            if column.kind in NUMBERS
            else ", ".join(column.values),
        )
        for column in table.columns
        if column.kind != IGNORED
    ]

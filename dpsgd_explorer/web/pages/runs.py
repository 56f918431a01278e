"""Pages of launched runs: the visitor's list, and one page per run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from flask import Blueprint, redirect, render_template, request, url_for
from werkzeug.wrappers import Response as WerkzeugResponse

from dpsgd_explorer.experiments.config import RunConfig
from dpsgd_explorer.experiments.kinds import KINDS, parse
from dpsgd_explorer.experiments.own_table import label_of
from dpsgd_explorer.runs.store.deletion import UNDO_SECONDS, Forgotten
from dpsgd_explorer.runs.store.records import Run
from dpsgd_explorer.web.http.own_tables import own_tables, tables
from dpsgd_explorer.web.http.services import (
    classes,
    run_store,
    settings,
    signing_keys,
)
from dpsgd_explorer.web.http.visitor import current_visitor, drop_cookie
from dpsgd_explorer.web.pages.groups import group_words
from dpsgd_explorer.web.questions.looked_at import COVERED
from dpsgd_explorer.web.run_views.audit_words import AuditWords
from dpsgd_explorer.web.run_views.base import RunView
from dpsgd_explorer.web.run_views.continuing import continuation
from dpsgd_explorer.web.run_views.folded_list import folded
from dpsgd_explorer.web.run_views.listing import (
    STATE_WORDS,
    ListQuery,
    RunRow,
    marked,
    row_of,
    rows_of,
)
from dpsgd_explorer.web.run_views.naming import differing_settings, name_of, names_of
from dpsgd_explorer.web.run_views.registry import VIEWS
from dpsgd_explorer.web.run_views.take_along import take_along

bp = Blueprint("runs", __name__, url_prefix="/runs")

SHOWN = 100
MOST = 1000  # maximum number of a visitor's runs in search and sorting
LATEST = 5
EXPORTS = {
    "html": "Report, one HTML file",
    "csv": "Numbers, CSV",
    "json": "Settings and log, JSON",
    "py": "Program that repeats it, Python",
    "ipynb": "The same as a notebook",
}


@bp.app_template_filter("utc")
def utc(seconds: float) -> str:
    """Returns a Unix time as ISO 8601 in UTC; the script converts it to local time."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(" ", "seconds")


@bp.app_template_filter("utc_moment")
def utc_moment(seconds: float) -> str:
    """Returns a Unix time in UTC as short as the script's local time: 29 Nov, 01:01."""
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment.day} {moment:%b, %H:%M}"


@bp.app_template_filter("lower_first")
def lower_first(text: str) -> str:
    """Returns a label with a lowercase first letter, for use within a sentence."""
    return text[:1].lower() + text[1:]


@bp.app_template_filter("duration")
def duration(seconds: float) -> str:
    """Returns a rounded duration, such as "4 s" or "1 min 20 s"."""
    if seconds < 9.95:
        return f"{round(seconds, 1):g} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


@bp.get("/")
def index() -> str:
    """Shows the visitor's runs, filtered by the query of the address."""
    return _index()


@bp.post("/forget")
def forget() -> str:
    """Deletes all data of the visitor and shows a summary of the deletion."""
    visitor = current_visitor()
    forgotten = run_store().forget_visitor(visitor) if visitor else Forgotten(0, 0)
    tables().delete_all()
    drop_cookie()
    return _index(forgotten)


@bp.get("/forget")
def forgotten() -> WerkzeugResponse:
    """Redirects a reload of the page after the deletion to the list."""
    return redirect(url_for("runs.index"))


ALL_STATES = {"running": "Running", **STATE_WORDS}


def _index(forgotten: Forgotten | None = None) -> str:
    query, visitor = ListQuery.of(request.args), current_visitor()
    all_runs = run_store().runs_of(visitor, MOST) if visitor else []
    wants_all = request.args.get("all") is not None
    if query.is_usual and not wants_all:
        selected, shown = rows(SHOWN), SHOWN
    else:
        selected = query.apply(rows_of(all_runs, visitor))
        shown = len(selected) if wants_all else SHOWN
    total = len(all_runs) if query.is_usual else len(selected)
    phases = run_store().phases_of([row.run.id for row in selected[:shown]])
    shown_rows = marked(selected[:shown], phases)
    return render_template(
        "runs/index.html",
        known=all_runs,
        rows=shown_rows,
        entries=folded(shown_rows, group_words),
        hidden=max(0, total - shown),
        query=query,
        kinds={
            name: KINDS[name].title for name in sorted({run.kind for run in all_runs})
        },
        data_sets={
            str(run.config["dataset"]): label_of(run.config)
            for run in all_runs
            if run.config.get("dataset")
        },
        states={
            name: ALL_STATES[name] for name in sorted({run.state for run in all_runs})
        },
        deleted=_deleted(),
        forgotten=forgotten,
        tables=len(own_tables()),
        classes=len(classes().of(current_visitor())),
        covered=COVERED,
        keep_days=settings().keep_days,
    )


@bp.get("/latest/")
def latest() -> str:
    """Returns the newest table rows, with which the trainer refreshes its list."""
    return render_template("runs/_latest.html", rows=rows(LATEST))


@bp.get("/<run_id>/")
def show(run_id: str) -> str:
    """Shows one run: its recorded log, or live updates while it trains."""
    run = run_store().get(run_id)
    config, view = parse(run.config), VIEWS[run.kind]
    row = row_of(run, None, current_visitor(), title=_title(run))
    return render_template(
        view.template,
        run=row.run,
        row=row,
        config=config,
        **_settings(view, config),
        exports=EXPORTS,
        standing=view.standing(config, partial(_logged, run.id)),
        continuation=continuation(run_store(), run, config),
        audit=AuditWords.of(run),
        receipt_keys=url_for("service_api.receipt_keys") if signing_keys() else "",
        along=take_along(
            run,
            run_store().weights_size(run.id),
            run_store().phases_of([run.id])[run.id],
        ),
        page_data={
            "run": row.run.model_dump(mode="json"),
            "config": run.config,
            **view.page_data(config),
        },
        **view.page(config),
    )


def _settings(view: RunView, config: RunConfig) -> dict[str, Any]:
    """Returns the settings that differ from the nearest preset, and the others."""
    names = set(differing_settings(view, config.model_dump(mode="json")))
    groups = view.settings(config)
    return {
        "differing": [
            (field, text)
            for entries in groups.values()
            for field, text in entries
            if field.name in names
        ],
        "usual": {
            group: usual
            for group, entries in groups.items()
            if (usual := [entry for entry in entries if entry[0].name not in names])
        },
    }


def _logged(run_id: str, kind: str) -> list[dict[str, Any]]:
    """Returns the data of a run's events of one kind, in order."""
    events = run_store().events(run_id, kind=kind)
    return [json.loads(event.data) for event in events]


def _title(run: Run) -> str:
    """Returns the title of a run; without a stored one it depends on the other runs."""
    if run.name or run.title:
        return name_of(run)
    return names_of(run_store().runs_of(run.visitor, MOST)).get(run.id, "")


def rows(limit: int) -> list[RunRow]:
    """Returns the newest runs of the visitor, each compared with the previous one."""
    visitor, store = current_visitor(), run_store()
    latest_runs = store.runs_of(visitor, limit) if visitor else []
    if all(run.name or run.title for run in latest_runs):
        return rows_of(latest_runs, visitor, store.previous)
    return rows_of(store.runs_of(visitor, MOST), visitor)[:limit]


@dataclass(frozen=True)
class Deleted:
    """A deleted run that can be restored within ``seconds``."""

    title: str
    restore: str
    seconds: float


def _deleted() -> list[Deleted]:
    visitor = current_visitor()
    deleted = run_store().deleted_of(visitor) if visitor else []
    now = run_store().clock()
    return [
        Deleted(
            name_of(run),
            f"/api/v1/runs/{run.id}/restore",
            run.deleted_at + UNDO_SECONDS - now,
        )
        for run in deleted
        if run.deleted_at is not None
    ]

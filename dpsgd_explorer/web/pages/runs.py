"""Pages about runs that were launched: the visitor's list, and one run replayed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from flask import Blueprint, render_template

from dpsgd_explorer.experiments.kinds import KINDS, parse
from dpsgd_explorer.runs.store.records import Run
from dpsgd_explorer.runs.store.schema import FINAL_STATES
from dpsgd_explorer.web.forms.fields import FormField
from dpsgd_explorer.web.http.services import run_store
from dpsgd_explorer.web.http.visitor import current_visitor
from dpsgd_explorer.web.run_views.models import RunSummary
from dpsgd_explorer.web.run_views.registry import VIEWS

bp = Blueprint("runs", __name__, url_prefix="/runs")

SHOWN = 100
LATEST = 5
CHANGES_SHOWN = 3
EXPORTS = {
    "html": "Report, one HTML file",
    "csv": "Numbers, CSV",
    "json": "Settings and log, JSON",
    "py": "Program that repeats it, Python",
    "ipynb": "The same as a notebook",
}
STATE_WORDS = {
    "queued": "Queued",
    "done": "Finished",
    "failed": "Failed",
    "cancelled": "Stopped",
    "interrupted": "Interrupted",
}


@dataclass(frozen=True)
class Change:
    """One setting that differs from the run before; a text is "" if it is not set."""

    field: FormField
    before: str
    after: str


@dataclass(frozen=True)
class RunRow:
    """A run as the table shows it.

    Attributes:
        result: What it reached, "" if not known.
        changes: What differs from the run of its kind before it; None for the first.
        more: How many further settings differ.
    """

    run: RunSummary
    title: str
    state: str
    result: str
    changes: list[Change] | None
    more: int

    @property
    def is_active(self) -> bool:
        """Whether it waits or trains."""
        return self.run.state not in FINAL_STATES


@bp.app_template_filter("utc")
def utc(seconds: float) -> str:
    """Return a moment as ISO 8601; the page's script turns it into local time."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(" ", "seconds")


@bp.app_template_filter("lower_first")
def lower_first(text: str) -> str:
    """Return a label as it stands within a sentence."""
    return text[:1].lower() + text[1:]


@bp.app_template_filter("duration")
def duration(seconds: float) -> str:
    """Return a time a person can plan with: 4 s, 1 min 20 s."""
    if seconds < 9.95:
        return f"{round(seconds, 1):g} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


@bp.get("/")
def index() -> str:
    """List the visitor's runs, newest first."""
    return render_template("runs/index.html", rows=rows(SHOWN))


@bp.get("/latest/")
def latest() -> str:
    """Return the newest rows of the table alone, for the trainer to refresh."""
    return render_template("runs/_latest.html", rows=rows(LATEST))


@bp.get("/<run_id>/")
def show(run_id: str) -> str:
    """Replay one run, or follow it while it trains."""
    run = run_store().get(run_id)
    config, view = parse(run.config), VIEWS[run.kind]
    row = _row(run, None, current_visitor())
    return render_template(
        view.template,
        run=row.run,
        row=row,
        config=config,
        settings=view.settings(config),
        exports=EXPORTS,
        page_data={
            "run": row.run.model_dump(mode="json"),
            "config": run.config,
            **view.page_data(config),
        },
        **view.page(config),
    )


def rows(limit: int) -> list[RunRow]:
    """Return the newest of this visitor's runs, each beside the last of its kind."""
    visitor = current_visitor()
    runs = run_store().runs_of(visitor, limit + 1) if visitor else []
    return [
        _row(run, next((x for x in runs[i:] if x.kind == run.kind), None), visitor)
        for i, run in enumerate(runs[:limit], start=1)
    ]


def changes(run: Run, before: Run) -> list[Change]:
    """Return the settings in which two runs of a kind differ, as one types them."""
    # A setting that is younger than a run had its default then.
    usual = {n: f.default for n, f in KINDS[run.kind].config.model_fields.items()}
    new, old = usual | run.config, usual | before.config
    return [
        Change(field, field.in_words(old[name]), field.in_words(new[name]))
        for name, field in VIEWS[run.kind].fields.items()
        if new[name] != old[name]
    ]


def _row(run: Run, before: Run | None, visitor: str) -> RunRow:
    view = VIEWS[run.kind]
    differing = None if before is None else changes(run, before)
    return RunRow(
        RunSummary.of(run, visitor),
        view.name_of(run),
        view.running if run.state == "running" else STATE_WORDS[run.state],
        view.result(run.summary),
        None if differing is None else differing[:CHANGES_SHOWN],
        max(0, len(differing or []) - CHANGES_SHOWN),
    )

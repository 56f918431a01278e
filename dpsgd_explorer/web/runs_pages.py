"""Pages about runs that were launched: the visitor's list, and one run replayed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Any

from flask import Blueprint, current_app, render_template

from dpsgd_explorer.runs.records import Run
from dpsgd_explorer.runs.schema import FINAL_STATES
from dpsgd_explorer.runs.store import RunStore
from dpsgd_explorer.training.catalogue import DATA_SETS
from dpsgd_explorer.training.config import TrainingConfig
from dpsgd_explorer.web.form import FormField, form_fields, text_of, to_query
from dpsgd_explorer.web.outlook import VIEWS, chart_facts, plan_of, plan_texts, truth_of
from dpsgd_explorer.web.run_answers import RunSummary
from dpsgd_explorer.web.visitor import current_visitor

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
    "running": "Training",
    "done": "Finished",
    "failed": "Failed",
    "cancelled": "Stopped",
    "interrupted": "Interrupted",
}


@dataclass(frozen=True)
class Change:
    """One setting that differs from the run before; a text is "" if it is not set."""

    ask: FormField
    before: str
    after: str


@dataclass(frozen=True)
class RunRow:
    """A run as the table shows it.

    Attributes:
        changes: What differs from the run before it; None for the first.
        more: How many further settings differ.
    """

    run: RunSummary
    title: str
    state: str
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
    return render_template("runs/index.html", rows=rows(SHOWN), states=STATE_WORDS)


@bp.get("/latest/")
def latest() -> str:
    """Return the newest rows of the table alone, for the trainer to refresh."""
    return render_template("runs/_latest.html", rows=rows(LATEST))


@bp.get("/<run_id>/")
def show(run_id: str) -> str:
    """Replay one run, or follow it while it trains."""
    run = _store().get(run_id)
    config = TrainingConfig.parse(run.config)
    plan = plan_of(config)
    answer = RunSummary.of(run, current_visitor())
    return render_template(
        "runs/show.html",
        run=answer,
        row=RunRow(answer, title(run), STATE_WORDS[run.state], None, 0),
        config=config,
        settings=settings_of(config),
        query=to_query(config),
        plan=plan_texts(plan),
        truth=truth_of(plan),
        views=VIEWS,
        exports=EXPORTS,
        page_data={
            "run": answer.model_dump(mode="json"),
            "config": run.config,
            "plan": plan,
            "facts": chart_facts(),
        },
    )


def rows(limit: int) -> list[RunRow]:
    """Return the newest of this visitor's runs, each compared with the one before."""
    visitor = current_visitor()
    runs = _store().runs_of(visitor, limit + 1) if visitor else []
    pairs = list(zip_longest(runs, runs[1:]))[:limit]
    return [_row(run, before, visitor) for run, before in pairs]


def title(run: Run) -> str:
    """Return what a run is called: its name, else what it trains on and spends."""
    if run.name:
        return run.name
    config = run.config
    return f"{DATA_SETS[config['dataset']].label}, {_privacy_in_short(config)}"


def changes(config: dict[str, Any], before: dict[str, Any]) -> list[Change]:
    """Return the settings in which two configurations differ, as one types them."""
    return [
        Change(ask, _choice(ask, before[name]), _choice(ask, config[name]))
        for name, ask in form_fields().items()
        if config[name] != before[name]
    ]


def settings_of(config: TrainingConfig) -> dict[str, list[tuple[FormField, str]]]:
    """Return every setting with its text under its heading."""
    values = config.model_dump(mode="json")
    groups: dict[str, list[tuple[FormField, str]]] = {}
    for name, ask in form_fields().items():
        if values[name] is not None:
            entry = (ask, _choice(ask, values[name]))
            groups.setdefault(ask.group, []).append(entry)
    return groups


def _row(run: Run, before: Run | None, visitor: str) -> RunRow:
    differing = None if before is None else changes(run.config, before.config)
    shown = None if differing is None else differing[:CHANGES_SHOWN]
    more = max(0, len(differing or []) - CHANGES_SHOWN)
    answer = RunSummary.of(run, visitor)
    return RunRow(answer, title(run), STATE_WORDS[run.state], shown, more)


def _choice(ask: FormField, value: object) -> str:
    text = text_of(value)
    if ask.kind == "boolean":
        return "on" if value else "off"
    return ask.choices.get(text, text)


def _privacy_in_short(config: dict[str, Any]) -> str:
    if not config["private"]:
        return "without privacy"
    if config["target_epsilon"] is not None:
        return f"ε = {text_of(config['target_epsilon'])}"
    return f"σ = {text_of(config['noise_multiplier'])}"


def _store() -> RunStore:
    store: RunStore = current_app.extensions["run_store"]
    return store

"""A run to take away: its numbers, its settings, and how to repeat it."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from flask import Blueprint, Response, abort, current_app, request

from dpsgd_explorer import __version__
from dpsgd_explorer.runs.records import Run, StoredEvent
from dpsgd_explorer.runs.store import RunStore
from dpsgd_explorer.training.kinds import KINDS
from dpsgd_explorer.web.operation import operation
from dpsgd_explorer.web.recount_api import odometer_of
from dpsgd_explorer.web.repeat_notebook import repeat_notebook
from dpsgd_explorer.web.repeat_script import repeat_script
from dpsgd_explorer.web.report import report
from dpsgd_explorer.web.run_answers import LogEntry, RunSummary, links
from dpsgd_explorer.web.run_kinds import VIEWS

bp = Blueprint("exports", __name__, url_prefix="/api/v1/runs/<run_id>")

SPENT = ("step", "epsilon", "seconds")


def as_json(run: Run, log: list[StoredEvent]) -> str:
    """Return settings, summary, the whole log, and an odometer that can go on."""
    whole = RunSummary.of(run, "").model_dump(mode="json", exclude={"mine", "links"})
    whole["config"] = run.config
    whole["events"] = [LogEntry.of(event).model_dump(mode="json") for event in log]
    spent = odometer_of(log, run.id)
    whole["odometer"] = json.loads(spent.to_json()) if spent else None
    whole["made_with"] = f"DP-SGD Explorer {__version__}"
    return json.dumps(whole, indent=1, allow_nan=False)


def as_csv(run: Run, log: list[StoredEvent]) -> str:
    """Return a row for each step and evaluation, each with the terms of its ε.

    An empty ``epsilon`` means that there is no guarantee.
    """
    view, told = VIEWS[run.kind], (*SPENT, *KINDS[run.kind].measured)
    told += view.more
    terms = view.terms(run.config).model_dump() if view.terms else {}
    outside = [f"not_private_{name}" for name in view.diagnostics]
    text = io.StringIO()
    rows = csv.writer(text)
    rows.writerow(["kind", *told, *outside, *terms])
    for event in log:
        if event.kind in ("step", "evaluation"):
            data = json.loads(event.data)
            diagnostics = data.get("diagnostics", {})
            row = [data.get(name) for name in told]
            row += [diagnostics.get(name) for name in view.diagnostics]
            rows.writerow([event.kind, *row, *terms.values()])
    return text.getvalue()


def as_python(run: Run, log: list[StoredEvent]) -> str:
    """Return a script that repeats the run and compares its numbers."""
    return repeat_script(run)


def as_notebook(run: Run, log: list[StoredEvent]) -> str:
    """Return a Jupyter notebook that repeats the run and compares its numbers."""
    return repeat_notebook(run)


def as_html(run: Run, log: list[StoredEvent]) -> str:
    """Return a report that needs no network: one file with its charts."""
    address = request.host_url.rstrip("/") + links(run.id)["page"]
    return report(run, [LogEntry.of(event) for event in log], address)


@dataclass(frozen=True)
class Format:
    """A way to take a run away."""

    media_type: str
    write: Callable[[Run, list[StoredEvent]], str]


FORMATS: Mapping[str, Format] = {
    "csv": Format("text/csv", as_csv),
    "html": Format("text/html", as_html),
    "ipynb": Format("application/x-ipynb+json", as_notebook),
    "json": Format("application/json", as_json),
    "py": Format("text/x-python", as_python),
}


@operation(
    bp,
    "GET",
    "/export.<extension>",
    media_types=tuple(entry.media_type for entry in FORMATS.values()),
    choices={"extension": list(FORMATS)},
)
def export(run_id: str, extension: str) -> Response:
    """Download a run as it stands now: its log, or what repeats it."""
    if extension not in FORMATS:
        abort(404)
    chosen, store = FORMATS[extension], _store()
    text = chosen.write(store.get(run_id), store.events(run_id))
    name = f"dpsgd-run-{run_id[:8]}.{extension}"
    return Response(
        text,
        mimetype=chosen.media_type,
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


def _store() -> RunStore:
    store: RunStore = current_app.extensions["run_store"]
    return store

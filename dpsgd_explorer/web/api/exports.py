"""Exports of a run: its numbers, its settings, and programs that reproduce it."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import Any

from flask import (
    Blueprint,
    Response,
    abort,
    request,
    stream_with_context,
)
from pydantic import BaseModel, ConfigDict

from dpsgd_explorer import __version__
from dpsgd_explorer.accounting.spending import FILTER
from dpsgd_explorer.errors import RunNotFoundError
from dpsgd_explorer.experiments.own_table import is_own
from dpsgd_explorer.runs.store.records import Run, StoredEvent
from dpsgd_explorer.runs.store.store import RunStore
from dpsgd_explorer.web.api.answer_cache import QUEUES
from dpsgd_explorer.web.api.operation import operation, parse_query
from dpsgd_explorer.web.api.recount import filter_of, odometer_of
from dpsgd_explorer.web.figures.exports.share_card import share_card
from dpsgd_explorer.web.http.services import run_store, signing_keys
from dpsgd_explorer.web.run_views.exports.report import report
from dpsgd_explorer.web.run_views.exports.reproduce import notebook, script
from dpsgd_explorer.web.run_views.models import LogEntry, RunSummary, links
from dpsgd_explorer.web.run_views.registry import VIEWS
from dpsgd_explorer.web.run_views.take_along import card_of

bp = Blueprint("exports", __name__, url_prefix="/api/v1/runs/<run_id>")

JSON = "application/json"
BYTES = "application/octet-stream"
SVG = "image/svg+xml"
SPENT = ("step", "epsilon", "seconds")
COUNTED = "counted"  # status of the ε that a filter counts along the way


class ReportQuery(BaseModel):
    """Options of a report."""

    model_config = ConfigDict(extra="ignore")

    plotly: bool = False


Log = Callable[[], Iterator[StoredEvent]]


def as_json(run: Run, log: Log) -> Iterator[str]:
    """Yield settings, summary, resumable accounting state and log, as JSON.

    ``odometer`` covers planned steps; ``filter`` covers a budget for changes, with the
    spent divergence at its order.  One of them is null, or both for a run that its own
    audit refuted.
    """
    whole = RunSummary.of(run, "").model_dump(mode="json", exclude={"mine", "links"})
    whole["config"] = run.config
    spent = None if run.is_refuted else odometer_of(log(), run.id)
    whole["odometer"] = json.loads(spent.to_json()) if spent else None
    whole["filter"] = None if run.is_refuted else filter_of(log())
    whole["made_with"] = f"DP-SGD Explorer {__version__}"
    yield _strict(whole, indent=1).removesuffix("\n}")
    yield ',\n "events": ['
    for i, event in enumerate(log()):
        entry = _strict(LogEntry.of(event).model_dump(mode="json"))
        yield f"{',' if i else ''}\n  {entry}"
    yield "\n ]\n}\n"


def as_csv(run: Run, log: Log) -> Iterator[str]:
    """Yield a row for each step and evaluation, each with the terms of its ε.

    An empty ``epsilon`` means that there is no guarantee.  An ε that a filter counted
    is no guarantee either: its status is "counted", and its row contains the budget.
    """
    view = VIEWS[run.kind]
    columns = (*SPENT, *view.kind.measured, *view.more)
    terms = view.terms(run.config).model_dump() if view.kind.spends else {}
    if terms.get("accountant") == FILTER:
        terms |= {"status": COUNTED, "budget": run.config["filter_epsilon"]}
    outside = [f"not_private_{name}" for name in view.diagnostics]
    yield _row(["kind", *columns, *outside, *terms])
    for event in log():
        if event.kind in ("step", "evaluation"):
            data = json.loads(event.data)
            diagnostics = data.get("diagnostics", {})
            row = [_cell(data.get(name)) for name in columns]
            row += [diagnostics.get(name) for name in view.diagnostics]
            yield _row([event.kind, *row, *terms.values()])


def as_html(run: Run, log: Log) -> str:
    """Return a self-contained report, one file with its charts.

    With ``?plotly=1`` it includes plotly.js, for interactive charts.
    """
    with_plotly = parse_query(ReportQuery).plotly
    is_hidden_from_others = is_own(run.config.get("dataset"))
    page = request.host_url.rstrip("/") + links(run)["page"]
    address = "" if is_hidden_from_others else page
    with QUEUES["reports"].turn():
        entries = [LogEntry.of(event) for event in log()]
        return report(run, entries, address, with_plotly=with_plotly)


def _strict(value: object, **layout: Any) -> str:
    return json.dumps(value, allow_nan=False, **layout)


def _cell(value: object) -> object:
    """Return a value as a cell: an object as JSON, any other value unchanged."""
    return json.dumps(value) if isinstance(value, dict) else value


def _row(values: Iterable[object]) -> str:
    text = io.StringIO()
    csv.writer(text).writerow(values)
    return text.getvalue()


def _phases_in(log: Log) -> list[dict[str, Any]]:
    """Return the data of the log's ``phase`` events."""
    return [json.loads(event.data) for event in log() if event.kind == "phase"]


def _as_script(run: Run, log: Log) -> str:
    return script(run, _phases_in(log))


def _as_notebook(run: Run, log: Log) -> str:
    return notebook(run, _phases_in(log))


@dataclass(frozen=True)
class Format:
    """An export format: one text, or a stream for logs of any length."""

    media_type: str
    write: Callable[[Run, Log], str | Iterator[str]]


FORMATS: Mapping[str, Format] = {
    "csv": Format("text/csv", as_csv),
    "html": Format("text/html", as_html),
    "ipynb": Format("application/x-ipynb+json", _as_notebook),
    "json": Format("application/json", as_json),
    "py": Format("text/x-python", _as_script),
}


@operation(
    bp,
    "GET",
    "/export.<extension>",
    media_types=tuple(entry.media_type for entry in FORMATS.values()),
    choices={"extension": list(FORMATS)},
)
def export(run_id: str, extension: str) -> Response:
    """Downloads a run in one of several formats.

    ``csv`` and ``json`` contain the log, and ``html`` is a self-contained report.
    ``py`` and ``ipynb`` are programs that repeat the run and compare the results.
    """
    if extension not in FORMATS:
        abort(404)
    chosen, store = FORMATS[extension], run_store()
    run = store.get(run_id)
    text = chosen.write(run, partial(_events_of, store, run))
    name = f"dpsgd-run-{run_id[:8]}.{extension}"
    return Response(
        text if isinstance(text, str) else stream_with_context(text),
        mimetype=chosen.media_type,
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


@operation(bp, "GET", "/card.svg", media_types=(SVG,))
def card(run_id: str) -> Response:
    """Returns a picture of a training run or search, with ε in odds.

    A training run has a picture when it has ended, a search when it has a winner. The
    picture is 1200 by 630 pixels.
    """
    store = run_store()
    run = store.get(run_id)
    log = (json.loads(event.data) for event in _evaluations(store, run))
    content = card_of(run, log, store.phases_of([run.id])[run.id])
    if content is None:
        raise RunNotFoundError(
            f"run {run_id!r} has no card: a training gets a card when it has ended, a "
            "search when it has a winner."
        )
    name = f"dpsgd-run-{run_id[:8]}-card.svg"
    disposition = {"Content-Disposition": f'inline; filename="{name}"'}
    return Response(share_card(content), mimetype=SVG, headers=disposition)


@operation(bp, "GET", "/receipt.json", media_types=(JSON,))
def receipt(run_id: str) -> Response:
    """Downloads the receipt of a finished private run.

    The receipt contains the plan, the steps done, ε and the audit. The command ``dpsgd
    verify`` checks it. A site with a key signs it.
    """
    store = run_store()
    run = store.get(run_id)
    ends = [json.loads(e.data) for e in store.events(run.id, kind="end")]
    content = ends[-1].get("receipt") if ends else None
    if content is None:
        raise RunNotFoundError(
            f"run {run_id!r} has no receipt: a private training, search or "
            "regression by several methods gets a receipt when it is done."
        )
    if (keys := signing_keys()) is not None:
        content = keys.sign(content, run.id)
    name = f"dpsgd-run-{run_id[:8]}.receipt.json"
    disposition = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(_strict(content, indent=1), mimetype=JSON, headers=disposition)


def _evaluations(store: RunStore, run: Run) -> Iterator[StoredEvent]:
    return (event for event in _events_of(store, run) if event.kind == "evaluation")


@operation(bp, "GET", "/weights.safetensors", media_types=(BYTES,))
def weights(run_id: str) -> Response:
    """Downloads the weights of a finished training run.

    The answer is a safetensors file. Its header contains the settings and the receipt
    of the run. A cancelled run has no weights, and the site deletes the oldest weights
    first.
    """
    store = run_store()
    run = store.get(run_id)
    data = store.weights(run.id)
    if data is None:
        raise RunNotFoundError(
            f"run {run_id!r} has no weights: they are stored when a training is done, "
            "and the oldest weights are deleted first."
        )
    name = f"dpsgd-run-{run_id[:8]}.safetensors"
    disposition = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(data, mimetype=BYTES, headers=disposition)


def _events_of(store: RunStore, run: Run) -> Iterator[StoredEvent]:
    """Yield the log up to the run's last event at the time of the request."""
    return takewhile(lambda event: event.seq <= run.last_seq, store.each_event(run.id))

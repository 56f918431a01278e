"""Pages of a visitor's tables: upload a CSV file, describe its columns, delete it."""

from __future__ import annotations

import csv
import io
import secrets
import shlex
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from urllib.parse import urlencode

from flask import Blueprint, abort, redirect, render_template, request, url_for
from pydantic import ValidationError
from werkzeug.wrappers import Response as WerkzeugResponse

from dpsgd_explorer.errors import ConfigError, QuotaError
from dpsgd_explorer.experiments.fields.messages import config_error
from dpsgd_explorer.experiments.own_csv import LARGEST_FILE, number_of
from dpsgd_explorer.experiments.own_table import (
    CATEGORY,
    COLUMN_KINDS,
    IGNORED,
    LABEL,
    MOST_CLASSES,
    MOST_VALUES,
    NUMBER,
    NUMBERS,
    Column,
    OwnTable,
)
from dpsgd_explorer.experiments.regression_methods_config import (
    RegressionMethodsConfig,
)
from dpsgd_explorer.experiments.vocabulary import LARGEST_SEED
from dpsgd_explorer.runs.own_tables import MAX_TABLES, Draft
from dpsgd_explorer.web.forms.fields import form_fields
from dpsgd_explorer.web.forms.form import Form, read_form
from dpsgd_explorer.web.http.networks import request_network
from dpsgd_explorer.web.http.own_tables import tables
from dpsgd_explorer.web.http.services import doorbell, run_store, settings
from dpsgd_explorer.web.http.visitor import current_visitor, known_visitor
from dpsgd_explorer.web.run_views.naming import title_of

bp = Blueprint("data", __name__, url_prefix="/data")

REGRESSION_FIELDS = ("methods", "target_epsilon", "delta", "steps")
BATCHES = 8  # approximate number of batches per epoch
LARGEST_BATCH = 1024
Answer = str | WerkzeugResponse | tuple[str, int]


@dataclass(frozen=True)
class ColumnInput:
    """Form input for one column.

    Attributes:
        kind: Key of ``COLUMN_KINDS``.
        text: Bounds or values as typed.
        error: Error message, "" if the input is valid.
    """

    name: str
    kind: str = IGNORED
    text: str = ""
    error: str = ""


@bp.before_request
def check_it_is_offered() -> None:
    """Responds with status 404 if the site does not accept tables."""
    if not settings().takes_own_data:
        abort(404)


@bp.get("/")
def index() -> str:
    """Shows the visitor's tables and the upload form."""
    return _index()


@bp.post("/")
def upload() -> Answer:
    """Stores a file and redirects to the form for its columns."""
    file = request.files.get("file")
    if file is None or not file.filename:
        return _index("Choose a file first."), 422
    with closing(file):
        content = file.read(LARGEST_FILE + 1)
    known_visitor()
    try:
        draft = tables().add(content, file.filename)
    except ConfigError as error:
        return _index(str(error)), 422
    return redirect(url_for("data.columns", sha256=draft.sha256), 303)


@bp.get("/<sha256>/")
def columns(sha256: str) -> str:
    """Shows the form that describes the columns of a file."""
    draft = _draft(sha256)
    return _columns(draft, [ColumnInput(name) for name in draft.names])


@bp.post("/<sha256>/")
def state(sha256: str) -> Answer:
    """Creates a table from a file and the description of its columns."""
    draft = _draft(sha256)
    stated = [
        ColumnInput(
            name,
            request.form.get(f"kind-{place}", IGNORED),
            request.form.get(f"text-{place}", "").strip(),
        )
        for place, name in enumerate(draft.names)
    ]
    read = [_read(column) for column in stated]
    valid = [column for column in read if isinstance(column, Column)]
    if len(valid) < len(read):
        faults = [_with_error(a, b) for a, b in zip(stated, read, strict=True)]
        return _columns(draft, faults), 422
    try:
        checked = tables().state(draft, tuple(valid))
    except ConfigError as error:
        shown = [
            ColumnInput(
                entry.name,
                entry.kind,
                entry.text,
                str(error) * (entry.name == error.field),
            )
            for entry in stated
        ]
        named = any(entry.error for entry in shown)
        return _columns(draft, shown, "" if named else str(error)), 422
    moved = sum(checked.moved.values())
    return redirect(url_for("data.index", added=checked.table.name, moved=moved), 303)


@bp.post("/<name>/delete")
def delete(name: str) -> Answer:
    """Deletes a table, or a file without a description of its columns."""
    if not (current_visitor() and tables().delete(name)):
        abort(404)
    return redirect(url_for("data.index", deleted=1), 303)


def train_query(table: OwnTable) -> str:
    """Returns the query of the initial training settings for a table."""
    size = max(1, min(LARGEST_BATCH, table.train_size // BATCHES))
    values = {
        "dataset": table.name,
        "model": "logistic",
        "expected_batch_size": size,
        "steps": 100,
        "learning_rate": 4,
        "max_grad_norm": 0.5,
        "delta": _delta(table),
    }
    return urlencode(values)


@bp.get("/<name>/regression")
def regression(name: str) -> str:
    """Shows the settings of a private regression on a table."""
    table = _table_with_target(name)
    return _regression(table, {"delta": _delta(table)})


@bp.post("/<name>/regression")
def run_regression(name: str) -> Answer:
    """Launches a private regression and redirects to the page of the run."""
    table = _table_with_target(name)
    texts = {setting: request.form.get(setting, "") for setting in REGRESSION_FIELDS}
    # Releases with equal seeds have equal noise, which their difference would cancel.
    seed = {"seed": str(secrets.randbelow(LARGEST_SEED))}
    config = _read_settings(table, texts | seed).settings
    if config is None:
        return _regression(table, texts), 422
    try:
        run = run_store().create(
            config,
            visitor=known_visitor(),
            network=request_network(),
            title=title_of(config.kind, config.model_dump(mode="json")),
        )
    except QuotaError as error:
        return _regression(table, texts, str(error)), 429
    doorbell().ring(run.id)
    return redirect(url_for("runs.show", run_id=run.id), 303)


def _delta(table: OwnTable) -> str:
    """Returns the suggested δ, below one over the number of rows."""
    return f"{min(1e-5, 1 / (10 * table.train_size)):.0e}"


def _index(error: str = "") -> str:
    has_visitor = bool(current_visitor())
    added = tables().get(request.args.get("added", "")) if has_visitor else None
    moved = request.args.get("moved", "")
    return render_template(
        "data/index.html",
        error=error,
        added=added,
        moved=int(moved) if moved.isascii() and moved.isdecimal() else 0,
        deleted="deleted" in request.args,
        tables=tables().all() if has_visitor else [],
        titles=tables().titles() if has_visitor else {},
        drafts=tables().drafts() if has_visitor else [],
        train_query=train_query,
        most=MAX_TABLES,
        largest=LARGEST_FILE // 2**20,
        keep_days=settings().keep_days,
    )


def _columns(draft: Draft, stated: list[ColumnInput], error: str = "") -> str:
    return render_template(
        "data/columns.html",
        draft=draft,
        stated=stated,
        kinds=COLUMN_KINDS,
        error=error,
    )


def _regression(table: OwnTable, texts: Mapping[str, str], error: str = "") -> str:
    """Shows the form of a private regression, with its errors if it was submitted."""
    read = _read_settings(table, texts)
    offered = form_fields(RegressionMethodsConfig)
    return render_template(
        "data/regression.html",
        table=table,
        form=read,
        fields=[offered[name] for name in REGRESSION_FIELDS],
        error=error,
        command=_command(table, tables().titles()[table.name], read.texts),
        divisors=[(c.name, _largest(c)) for c in _numbers(table)],
        y_bound=_largest(table.predicted),
        removed=[c.name for c in table.columns if c.kind not in NUMBERS],
        renamed=[c.name for c in table.features if "," in c.name],
    )


def _read_settings(
    table: OwnTable, texts: Mapping[str, str]
) -> Form[RegressionMethodsConfig]:
    return read_form(RegressionMethodsConfig, texts, fixed={"dataset": table.name})


def _command(table: OwnTable, title: str, texts: Mapping[str, str]) -> str:
    """Returns the command that predicts the target from the other numbers."""
    features = _numbers(table)
    ranges = ",".join(f"{c.name}={c.low:g} to {c.high:g}" for c in features)
    words = ["--csv", title or "table.csv", "--target", table.predicted.name]
    words += [
        "--y-bound",
        _largest(table.predicted),
        "--bounds",
        ranges,
        "--rows",
        "clip",
    ]
    words += ["--epsilon", texts["target_epsilon"], "--delta", texts["delta"]]
    return shlex.join(["python", "-m", "dpsgd_explorer", "regression", *words])


def _numbers(table: OwnTable) -> list[Column]:
    """Returns the features that the command reads."""
    return [c for c in table.features if c.kind == NUMBER]


def _largest(column: Column) -> str:
    """Returns the largest absolute value within the bounds of a number."""
    return f"{max(abs(column.low or 0), abs(column.high or 0)):g}"


def _table_with_target(name: str) -> OwnTable:
    table = tables().get(name) if current_visitor() else None
    if table is None or not table.is_regression:
        abort(404)
    return table


def _draft(sha256: str) -> Draft:
    draft = tables().draft(sha256) if current_visitor() else None
    if draft is None:
        abort(404)
    return draft


def _with_error(stated: ColumnInput, read: Column | str) -> ColumnInput:
    error = read if isinstance(read, str) else ""
    return ColumnInput(stated.name, stated.kind, stated.text, error)


def _read(stated: ColumnInput) -> Column | str:
    """Returns the column, or an error message."""
    if stated.kind not in COLUMN_KINDS:
        return f"Choose one of {', '.join(COLUMN_KINDS.values())}."
    try:
        return Column.model_validate(_values_of(stated))
    except ConfigError as error:
        return _sentence(error)
    except ValidationError as error:
        return _sentence(config_error(error, Column))


def _sentence(error: ConfigError | str) -> str:
    """Returns an error message as a sentence for display next to its column."""
    words = str(error).removeprefix("table: ")
    return words[:1].upper() + words[1:].rstrip(".") + "."


def _values_of(stated: ColumnInput) -> Mapping[str, object]:
    """Returns the values of a column from the form input.

    Raises:
        ConfigError: The bounds are not two numbers, or no value is listed.
    """
    column: dict[str, object] = {"name": stated.name, "kind": stated.kind}
    if stated.kind in NUMBERS:
        low, _, high = stated.text.partition(" to ")
        bounds = [number_of(text.strip()) for text in (low, high)]
        if None in bounds:
            raise ConfigError(
                "table",
                f"bounds must be two numbers such as 0 to 100, got {stated.text!r}.",
            )
        return column | {"low": bounds[0], "high": bounds[1]}
    if stated.kind in (CATEGORY, LABEL):
        listed = next(csv.reader(io.StringIO(stated.text), skipinitialspace=True), [])
        if not listed:
            most = MOST_CLASSES if stated.kind == LABEL else MOST_VALUES
            raise ConfigError(
                "table",
                f"column {stated.name!r} must list its values, 2 to {most}, separated "
                "by commas.",
            )
        return column | {"values": [value.strip() for value in listed]}
    return column

"""Own tables and the runs on them are for their visitor alone."""

from __future__ import annotations

from flask import has_request_context, request

from dpsgd_explorer.errors import ConfigError, RunNotFoundError
from dpsgd_explorer.experiments.config import RunConfig
from dpsgd_explorer.experiments.kinds import as_training
from dpsgd_explorer.experiments.own_table import OwnTable, is_own, lookup
from dpsgd_explorer.runs.own_tables import OwnTables
from dpsgd_explorer.runs.store.records import Group, Run
from dpsgd_explorer.web.http.services import run_store, settings
from dpsgd_explorer.web.http.visitor import current_visitor


def tables() -> OwnTables:
    """Return the tables of this request's visitor; a new one has none."""
    store = run_store()
    return OwnTables(store.database, current_visitor(), store.clock)


def own_tables() -> list[OwnTable]:
    """Return the tables that this request's visitor may train on."""
    return tables().all() if settings().takes_own_data and current_visitor() else []


def let_own_tables_be_found() -> None:
    """Let settings of this request name the tables of its visitor."""
    lookup.set(_find)


def _find(name: str) -> OwnTable | None:
    if not has_request_context():  # a thread keeps the lookup of its last request
        return None
    if not (settings().takes_own_data and current_visitor()):
        return None
    return tables().get(name)


def check_table(config: RunConfig) -> None:
    """Refuse a run on a table that its visitor does not have here.

    Raises:
        ConfigError: it is another visitor's, deleted, or other than it was stated.
    """
    training = as_training(config)
    if training is None or training.table is None:
        return
    if _find(training.dataset) != training.table:
        raise ConfigError(
            "dataset",
            f"dataset {training.dataset!r} must be one of your own tables on this "
            "site, but you have no table with this name. Add it under Your data.",
        )


def is_hidden(run: Run) -> bool:
    """Whether a run is on a table of another visitor."""
    return is_own(run.config.get("dataset")) and run.visitor != current_visitor()


def hide_runs_of_others() -> None:
    """Answer as if there were no run, if it is on a table of another visitor.

    Raises:
        RunNotFoundError: it is.
    """
    run_id = (request.view_args or {}).get("run_id")
    if run_id is None:
        return
    try:
        run = run_store().get(run_id)
    except RunNotFoundError:
        return  # the view says so, or restores it
    _refuse_hidden(run)


def visible_run(run_id: str) -> Run:
    """Return a run, unless it is on a table of another visitor.

    Raises:
        RunNotFoundError: there is none, or it is.
    """
    run = run_store().get(run_id)
    _refuse_hidden(run)
    return run


def visible_group(group_id: str) -> Group:
    """Return a group, unless one of its runs is on a table of another visitor.

    Raises:
        RunNotFoundError: there is none, or it is.
    """
    group = run_store().group(group_id)
    if any(is_hidden(run) for run in group.runs):
        raise RunNotFoundError(f"group {group_id!r} does not exist on this site.")
    return group


def _refuse_hidden(run: Run) -> None:
    if is_hidden(run):
        raise RunNotFoundError(f"run {run.id!r} does not exist on this site.")

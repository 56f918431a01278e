"""Access to visitors' own tables and the runs on them, for their owner only."""

from __future__ import annotations

from flask import has_request_context, request

from dpsgd_explorer.errors import ConfigError, RunNotFoundError
from dpsgd_explorer.experiments.config import RunConfig
from dpsgd_explorer.experiments.own_table import OwnTable, is_own, lookup
from dpsgd_explorer.runs.own_tables import OwnTables
from dpsgd_explorer.runs.store.records import Group, Run
from dpsgd_explorer.web.http.services import run_store, settings
from dpsgd_explorer.web.http.visitor import current_visitor


def tables() -> OwnTables:
    """Return the tables of this request's visitor; a new visitor has none."""
    store = run_store()
    return OwnTables(store.database, current_visitor(), store.clock)


def own_tables() -> list[OwnTable]:
    """Return the tables of this request's visitor, if the site accepts tables."""
    return tables().all() if settings().takes_own_data and current_visitor() else []


def tables_with_classes() -> list[OwnTable]:
    """Return the tables that this request's visitor may train a classifier on."""
    return [table for table in own_tables() if not table.is_regression]


def let_own_tables_be_found() -> None:
    """Allow the settings in this request to name the visitor's tables."""
    lookup.set(_find)


def _find(name: str) -> OwnTable | None:
    if not has_request_context():  # threads inherit the lookup of an earlier request
        return None
    if not (settings().takes_own_data and current_visitor()):
        return None
    return tables().get(name)


def check_table(config: RunConfig) -> None:
    """Reject a run on a table that its visitor does not have here.

    Raises:
        ConfigError: the table belongs to another visitor, is deleted, or differs from
            its statement in the settings.
    """
    table = config.own_table
    if table is not None and _find(table.name) != table:
        raise ConfigError(
            "dataset",
            f"dataset {table.name!r} must be one of your own tables on this site, but "
            "you have no table with this name. Add it under Your data.",
        )


def is_hidden(run: Run) -> bool:
    """Return whether a run uses a table of another visitor."""
    return is_own(run.config.get("dataset")) and run.visitor != current_visitor()


def hide_runs_of_others() -> None:
    """Respond to a run on another visitor's table as if the run did not exist.

    Raises:
        RunNotFoundError: the run uses another visitor's table.
    """
    run_id = (request.view_args or {}).get("run_id")
    if run_id is None:
        return
    try:
        run = run_store().get(run_id)
    except RunNotFoundError:
        return  # the view raises the error, or restores the run
    _check_visible(run)


def visible_run(run_id: str) -> Run:
    """Return a run, unless it uses a table of another visitor.

    Raises:
        RunNotFoundError: no such run, or it is hidden from this visitor.
    """
    run = run_store().get(run_id)
    _check_visible(run)
    return run


def visible_group(group_id: str) -> Group:
    """Return a group, unless one of its runs uses a table of another visitor.

    Raises:
        RunNotFoundError: no such group, or it is hidden from this visitor.
    """
    group = run_store().group(group_id)
    if any(is_hidden(run) for run in group.runs):
        raise RunNotFoundError(f"group {group_id!r} does not exist on this site.")
    return group


def _check_visible(run: Run) -> None:
    if is_hidden(run):
        raise RunNotFoundError(f"run {run.id!r} does not exist on this site.")

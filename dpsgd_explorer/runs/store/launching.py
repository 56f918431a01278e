"""Insertion of admitted runs, inside a caller's transaction."""

from __future__ import annotations

from sqlalchemy import Connection, insert

from dpsgd_explorer.experiments.config import RunConfig
from dpsgd_explorer.quotas import Quotas
from dpsgd_explorer.runs.store import admission
from dpsgd_explorer.runs.store.labels import distinct_title
from dpsgd_explorer.runs.store.records import Run
from dpsgd_explorer.runs.store.schema import QUEUED, runs
from dpsgd_explorer.runs.store.transitions import to_json, write_events


def queue(
    connection: Connection,
    config: RunConfig,
    launch: admission.Launch,
    *,
    name: str,
    title: str = "",
    parent: str = "",
    quotas: Quotas,
    cost_limit: float,
    now: float,
) -> Run:
    """Inserts a queued run with its first event, after admission; returns the run.

    Raises:
        ConfigError, QuotaError: See ``admission.admit``.
    """
    admission.admit(
        connection, config, launch, quotas=quotas, cost_limit=cost_limit, now=now
    )
    return write(
        connection, config, launch, name=name, title=title, parent=parent, now=now
    )


def write(
    connection: Connection,
    config: RunConfig,
    launch: admission.Launch,
    *,
    name: str,
    title: str = "",
    parent: str,
    now: float,
) -> Run:
    """Inserts and returns an admitted run, queued, with its first event.

    The title gets a seed or a number if the visitor already has a run of that title.
    """
    settings = config.model_dump(mode="json")
    if title:
        title = distinct_title(connection, launch.visitor, title, settings)
    values = {
        "id": launch.run_id,
        "kind": config.kind,
        "state": QUEUED,
        "visitor": launch.visitor,
        "name": name,
        "title": title or None,
        "group": launch.group,
        "parent": parent,
        "config": to_json(settings),
        "steps": config.planned_steps,
        "created_at": now,
        "last_seq": 1,
    }
    inserted = insert(runs).values(values).returning(runs)
    row = connection.execute(inserted).mappings().one()
    write_events(connection, launch.run_id, 0, [("state", {"state": QUEUED})])
    return Run.from_row(row)

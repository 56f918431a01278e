"""Insertion of admitted runs, inside a caller's transaction."""

from __future__ import annotations

from sqlalchemy import Connection, insert

from dpsgd_explorer.experiments.config import RunConfig
from dpsgd_explorer.quotas import Quotas
from dpsgd_explorer.runs.store import admission, groups
from dpsgd_explorer.runs.store.labels import checked_name, numbered
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
) -> None:
    """Inserts a queued run with its first event, after admission.

    Raises:
        ConfigError, QuotaError: See ``admission.admit``.
    """
    admission.admit(
        connection, config, launch, quotas=quotas, cost_limit=cost_limit, now=now
    )
    write(connection, config, launch, name=name, title=title, parent=parent, now=now)


def queue_one(
    connection: Connection,
    config: RunConfig,
    launch: admission.Launch,
    *,
    name: str,
    title: str = "",
    parent: str,
    quotas: Quotas,
    cost_limit: float,
    now: float,
) -> None:
    """Inserts a queued run that does not belong to a group with a fixed set of runs.

    Raises:
        ConfigError: See ``queue``; also if the name is invalid, or the group's name is
            the id of a group with a fixed set of runs.
        QuotaError: See ``queue``.
    """
    if launch.group:
        groups.check_name_is_free(connection, launch.group)
    queue(
        connection,
        config,
        launch,
        name=checked_name("name", name),
        title=title,
        parent=parent,
        quotas=quotas,
        cost_limit=cost_limit,
        now=now,
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
) -> None:
    """Inserts an admitted run in the state queued, with its first event.

    The title gets a number if the visitor already has a run of that title.
    """
    values = {
        "id": launch.run_id,
        "kind": config.kind,
        "state": QUEUED,
        "visitor": launch.visitor,
        "name": name,
        "title": numbered(connection, launch.visitor, title) if title else None,
        "group": launch.group,
        "parent": parent,
        "config": to_json(config.model_dump(mode="json")),
        "steps": config.planned_steps,
        "created_at": now,
        "last_seq": 1,
    }
    connection.execute(insert(runs).values(values))
    write_events(connection, launch.run_id, 0, [("state", {"state": QUEUED})])

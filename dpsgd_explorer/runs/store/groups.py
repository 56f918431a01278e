"""Rows of groups: runs that are created, read and ended together.

The column "group" of a run contains the id of the group.  It may also contain a name
chosen by the visitor; such a group has no row in the table of groups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlalchemy import Connection, RowMapping, Select, insert, select

from dpsgd_explorer.errors import ConfigError, RunNotFoundError
from dpsgd_explorer.experiments.groups import RunGroup
from dpsgd_explorer.runs.store.records import Group, Run
from dpsgd_explorer.runs.store.schema import events, groups, runs

# Kinds of events that the page of a group draws: states and curves.
SHOWN_KINDS = ("state", "phase", "evaluation", "end")


def add(
    connection: Connection, group_id: str, group: RunGroup, visitor: str, now: float
) -> None:
    """Inserts the row of a group; the caller adds the runs in the same transaction."""
    connection.execute(
        insert(groups).values(
            id=group_id,
            visitor=visitor,
            purpose=group.purpose,
            setting=group.setting,
            created_at=now,
        )
    )


def read(connection: Connection, group_id: str, visitor: str | None = None) -> Group:
    """Returns a group with its runs.

    Args:
        connection: An open transaction.
        group_id: Id of the group.
        visitor: Required owner of the group; None accepts any owner.

    Raises:
        RunNotFoundError: The group does not exist, or belongs to another visitor.
    """
    query = select(groups).where(groups.c.id == group_id)
    if visitor is not None:
        query = query.where(groups.c.visitor == visitor)
    row = connection.execute(query).mappings().one_or_none()
    members = [Run.from_row(run) for run in rows(connection, group_id)]
    if row is None or not members:
        raise RunNotFoundError(
            f"group {group_id!r} does not exist on this site, or belongs to another "
            "visitor."
        )
    return Group(**row, runs=members)


def act_on_runs(
    connection: Connection,
    group_id: str,
    visitor: str,
    act: Callable[[Connection, RowMapping, float], None],
    now: float,
) -> None:
    """Calls a function for every run of a visitor's group.

    Args:
        connection: An open transaction.
        group_id: Id of the group.
        visitor: Owner of the group.
        act: Function of connection, run and time, such as ``deletion.stop``.
        now: Unix seconds.

    Raises:
        RunNotFoundError: The group does not exist, or belongs to another visitor.
    """
    read(connection, group_id, visitor)
    for row in rows(connection, group_id):
        act(connection, row, now)


def rows(connection: Connection, group_id: str) -> Sequence[RowMapping]:
    """Returns the runs of a group that are not deleted, in order of creation."""
    query = (
        select(runs)
        .where(runs.c.group == group_id, runs.c.deleted_at.is_(None))
        .order_by(runs.c.created_at, runs.c.id)
    )
    return connection.execute(query).mappings().all()


def check_name_is_free(connection: Connection, name: str) -> None:
    """Raises ConfigError if the name is the id of a group with a fixed set of runs."""
    query = select(groups.c.id).where(groups.c.id == name)
    if name and connection.scalar(query) is not None:
        raise ConfigError(
            "group",
            f"group {name!r} has a fixed set of runs. Choose another name.",
        )


def events_after(group_id: str, event_id: int) -> Select[tuple[object, ...]]:
    """Returns the query of a group's events after ``event_id``, oldest first."""
    return (
        select(events)
        .join_from(events, runs, events.c.run_id == runs.c.id)
        .where(
            runs.c.group == group_id,
            events.c.id > event_id,
            events.c.kind.in_(SHOWN_KINDS),
        )
        .order_by(events.c.id)
    )

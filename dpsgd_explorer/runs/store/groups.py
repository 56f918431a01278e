"""The rows of groups: runs that were made together, read and ended together.

The column "group" of a run holds its group's id.  Visitors may name groups of their own
in it, which have no row here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlalchemy import Connection, RowMapping, Select, insert, select

from dpsgd_explorer.errors import ConfigError, RunNotFoundError
from dpsgd_explorer.experiments.groups import RunGroup
from dpsgd_explorer.runs.store.records import Group, Run
from dpsgd_explorer.runs.store.schema import events, groups, runs

# Of an event of a group: what curves and states are made from.
SHOWN = ("state", "phase", "evaluation", "end")


def add(
    connection: Connection, group_id: str, group: RunGroup, visitor: str, now: float
) -> None:
    """Write the row of a group; its runs follow in the same transaction."""
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
    """Return a group with its runs; RunNotFoundError if there is none.

    Args:
        connection: An open transaction.
        group_id: The group.
        visitor: Its owner, None: whoever that is.
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
    """Do something to every run of a visitor's group; RunNotFoundError: there is none.

    Args:
        connection: An open transaction.
        group_id: The group.
        visitor: Its owner.
        act: What is done to a run, such as ``deletion.stop``.
        now: Time of the clock.
    """
    read(connection, group_id, visitor)
    for row in rows(connection, group_id):
        act(connection, row, now)


def rows(connection: Connection, group_id: str) -> Sequence[RowMapping]:
    """Return the runs of a group that are not deleted, in the order of its values."""
    query = (
        select(runs)
        .where(runs.c.group == group_id, runs.c.deleted_at.is_(None))
        .order_by(runs.c.created_at, runs.c.id)
    )
    return connection.execute(query).mappings().all()


def check_name_is_free(connection: Connection, name: str) -> None:
    """Raise ConfigError if a run would be added to a group that was made whole."""
    query = select(groups.c.id).where(groups.c.id == name)
    if connection.scalar(query) is not None:
        raise ConfigError(
            "group",
            f"group {name!r} has a fixed set of runs. Choose another name.",
        )


def events_after(group_id: str, event_id: int) -> Select[tuple[object, ...]]:
    """Return the query of a group's events after one, oldest first."""
    return (
        select(events)
        .join_from(events, runs, events.c.run_id == runs.c.id)
        .where(
            runs.c.group == group_id, events.c.id > event_id, events.c.kind.in_(SHOWN)
        )
        .order_by(events.c.id)
    )

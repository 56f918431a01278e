"""Deletion of runs: hidden immediately, restorable for seconds, then deleted for good.

A deleted run is stopped and removed from all lists.  Once it can no longer be restored,
``purge`` deletes its rows.  The worker calls ``purge`` every minute, so the deletion
does not depend on an open browser or an uninterrupted web server.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, RowMapping, or_, select, update

from dpsgd_explorer.identifiers import new_id
from dpsgd_explorer.runs.store.schema import CANCELLED, MOVES, PAUSED, launches, runs
from dpsgd_explorer.runs.store.site import rosters
from dpsgd_explorer.runs.store.transitions import forget, move

UNDO_SECONDS = 10.0
# Extra time for an undo request that was sent in the last moment.
GRACE_SECONDS = 2.0


@dataclass(frozen=True)
class Forgotten:
    """Counts of a visitor's deleted data.

    Attributes:
        runs: Number of runs deleted with log and checkpoint.
        launches: Number of launches of the last day, kept without the visitor's name.
    """

    runs: int
    launches: int


def stop(connection: Connection, run: RowMapping, now: float) -> None:
    """Ends a run that has no process; otherwise orders the worker to end it."""
    if run["lease_until"] is not None:
        order = update(runs).where(runs.c.id == run["id"]).values(cancel=True)
        connection.execute(order)
    elif CANCELLED in MOVES[run["state"]]:
        move(connection, run, CANCELLED, now)


def delete(connection: Connection, run: RowMapping, now: float) -> None:
    """Stops a run and hides it from every list."""
    stop(connection, run, now)
    hidden = update(runs).where(runs.c.id == run["id"]).values(deleted_at=now)
    connection.execute(hidden)


def restore(connection: Connection, run_id: str, visitor: str, now: float) -> bool:
    """Undoes a deletion; returns False if the run was not deleted, or too long ago."""
    since = now - UNDO_SECONDS - GRACE_SECONDS
    statement = update(runs).where(
        runs.c.id == run_id, runs.c.visitor == visitor, runs.c.deleted_at >= since
    )
    return bool(connection.execute(statement.values(deleted_at=None)).rowcount)


def overdue(connection: Connection, now: float, limit: int) -> Sequence[str]:
    """Returns ids of at most ``limit`` runs that can no longer be restored.

    These include runs with a deletion time in the future: the clock was set back since.
    """
    ended = runs.c.deleted_at < now - UNDO_SECONDS - GRACE_SECONDS
    query = select(runs.c.id).where(or_(ended, runs.c.deleted_at > now)).limit(limit)
    return connection.scalars(query).all()


def ended(connection: Connection, before: float, limit: int) -> Sequence[str]:
    """Returns ids of at most ``limit`` runs that ended before a time.

    Paused runs created before that time are included.
    """
    is_left = (runs.c.state == PAUSED) & (runs.c.created_at < before)
    query = select(runs.c.id).where(or_(runs.c.ended_at < before, is_left)).limit(limit)
    return connection.scalars(query).all()


def forget_visitor(connection: Connection, visitor: str, now: float) -> Forgotten:
    """Deletes all data of a visitor immediately; this cannot be undone.

    Launches of the last day also count for the network's quota and the order of the
    queue, so they are kept under random names.  The visitor is removed from every
    class; a class without another teacher is deleted.
    """
    query = select(runs.c.id).where(runs.c.visitor == visitor)
    run_ids = connection.scalars(query).all()
    forget(connection, run_ids)
    columns = select(launches.c.run_id, launches.c.launch)
    launched = connection.execute(columns.where(launches.c.visitor == visitor)).all()
    alias = new_id()
    rosters.forget_visitor(connection, visitor, alias, now)
    names = {launch: new_id() for _, launch in launched}
    for run_id, launch in launched:
        renamed = {"visitor": alias, "launch": names[launch]}
        renamed["run_id"] = new_id()
        statement = update(launches).where(launches.c.run_id == run_id)
        connection.execute(statement.values(renamed))
    return Forgotten(len(run_ids), len(names))

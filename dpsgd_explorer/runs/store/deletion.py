"""Deleting runs: out of sight at once, restorable for seconds, then gone for good.

A deleted run is stopped at once and in no list.  ``purge`` deletes its rows once it can
no longer be restored: the worker calls it every second, so a browser that is closed or
a server that starts again changes nothing.
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
# An undo that is pressed in the last moment has its way to go.
GRACE_SECONDS = 2.0


@dataclass(frozen=True)
class Forgotten:
    """What was deleted of a visitor.

    Attributes:
        runs: Runs, each with its log and checkpoint.
        launches: Launches of the last day, which stay without the visitor's name.
    """

    runs: int
    launches: int


def stop(connection: Connection, run: RowMapping, now: float) -> None:
    """End a run without a process now; ask the worker to end another one."""
    if run["lease_until"] is not None:
        asked = update(runs).where(runs.c.id == run["id"]).values(cancel=True)
        connection.execute(asked)
    elif CANCELLED in MOVES[run["state"]]:
        move(connection, run, CANCELLED, now)


def delete(connection: Connection, run: RowMapping, now: float) -> None:
    """Stop a run and take it out of every list."""
    stop(connection, run, now)
    hidden = update(runs).where(runs.c.id == run["id"]).values(deleted_at=now)
    connection.execute(hidden)


def restore(connection: Connection, run_id: str, visitor: str, now: float) -> bool:
    """Undo a deletion; return False if there is none, or it is too late."""
    since = now - UNDO_SECONDS - GRACE_SECONDS
    mine = (runs.c.id == run_id, runs.c.visitor == visitor, runs.c.deleted_at >= since)
    statement = update(runs).where(*mine).values(deleted_at=None)
    return bool(connection.execute(statement).rowcount)


def overdue(connection: Connection, now: float, limit: int) -> Sequence[str]:
    """Return ids of some runs that can no longer be restored.

    One that was deleted in the future is from before the clock was set back.
    """
    ended = runs.c.deleted_at < now - UNDO_SECONDS - GRACE_SECONDS
    query = select(runs.c.id).where(or_(ended, runs.c.deleted_at > now)).limit(limit)
    return connection.scalars(query).all()


def ended(connection: Connection, before: float, limit: int) -> Sequence[str]:
    """Return ids of some runs that ended before a time, or were left paused then."""
    left = (runs.c.state == PAUSED) & (runs.c.created_at < before)
    query = select(runs.c.id).where(or_(runs.c.ended_at < before, left)).limit(limit)
    return connection.scalars(query).all()


def forget_visitor(connection: Connection, visitor: str, now: float) -> Forgotten:
    """Delete everything about a visitor, at once and for good.

    Launches of the last day are quotas of a network and turns of the queue too: they
    stay, under random names that lead to nobody.  Classes lose a student, or with
    their last teacher everything.
    """
    mine = select(runs.c.id).where(runs.c.visitor == visitor)
    run_ids = connection.scalars(mine).all()
    forget(connection, run_ids)
    query = select(launches.c.run_id, launches.c.launch)
    known = connection.execute(query.where(launches.c.visitor == visitor)).all()
    alias = new_id()
    rosters.forget_visitor(connection, visitor, alias, now)
    names = {launch: new_id() for _, launch in known}
    for run_id, launch in known:
        renamed = {"visitor": alias, "launch": names[launch]}
        renamed["run_id"] = new_id()
        statement = update(launches).where(launches.c.run_id == run_id)
        connection.execute(statement.values(renamed))
    return Forgotten(len(run_ids), len(names))

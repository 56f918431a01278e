"""The order of queued runs: visitors take turns, however many runs each has queued.

Starts are counted.  A visitor waits since the start of its own last run, or since the
last start of all before its oldest queued run was made, whichever is later; at a tie,
the visitor that did not have that start goes first.  In a turn every visitor has one
run, in order of waiting: a visitor with twenty queued runs delays another one by one
run at most, and new visitors cannot overtake a waiting one for ever.

Only starts change the order, and a start removes its first run: a displayed position
stays right unless a visitor joins or leaves.  A run that lost its worker goes first,
for its start has been counted.

Source: start-time fair queueing (Goyal, Vin and Cheng, 1996), every run of length 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Select, case, func, select, update

from dpsgd_explorer.runs.store.schema import QUEUED, RUNNING, launches, runs

ORDER = ("turn", "waits_since", "first_created_at", "first_id", "created_at", "id")


def starts(connection: Connection) -> int:
    """Return the number of starts, as far as launches are remembered."""
    newest = select(func.max(launches.c.started), func.max(launches.c.joined))
    return max(count or 0 for count in connection.execute(newest).one())


def count_start(connection: Connection, run_id: str) -> None:
    """Count the first start of a run as its visitor's turn."""
    first = (launches.c.run_id == run_id, launches.c.started.is_(None))
    number = starts(connection) + 1
    connection.execute(update(launches).where(*first).values(started=number))


def running_of(connection: Connection, visitor: str) -> int:
    """Return the number of a visitor's running runs."""
    mine = (runs.c.visitor == visitor, runs.c.state == RUNNING)
    query = select(func.count()).select_from(runs).where(*mine)
    return connection.scalar(query) or 0


def next_queued(connection: Connection, running_per_visitor: int | None) -> str | None:
    """Return the id of the run to start, or None.

    Args:
        connection: An open transaction.
        running_per_visitor: Visitors with this many running runs wait; None: no limit.
    """
    queued = _queued().subquery()
    query = select(queued.c.id).order_by(*(queued.c[name] for name in ORDER))
    if running_per_visitor is not None:
        query = query.where(queued.c.running < running_per_visitor)
    return connection.scalar(query.limit(1))


def position(connection: Connection, run_id: str) -> int | None:
    """Return 1 for the run that is next, and so on; None if it is not queued."""
    queued = _queued().subquery()
    place = func.row_number().over(order_by=[queued.c[name] for name in ORDER])
    places = select(queued.c.id, place.label("place")).subquery()
    return connection.scalar(select(places.c.place).where(places.c.id == run_id))


def in_order(connection: Connection) -> Sequence[str]:
    """Return the ids of all queued runs, the next one first."""
    queued = _queued().subquery()
    query = select(queued.c.id).order_by(*(queued.c[name] for name in ORDER))
    return connection.scalars(query).all()


def _queued() -> Select[Any]:
    """Return every queued run with its turn and its visitor's number of running runs.

    Visitors who wait equally long go in the order of their first runs, in every turn:
    they wait in this order after the first.
    """
    busy = (
        select(runs.c.visitor, func.count().label("running"))
        .where(runs.c.state == RUNNING)
        .group_by(runs.c.visitor)
        .subquery()
    )
    served = (
        select(launches.c.visitor, func.max(launches.c.started).label("start"))
        .group_by(launches.c.visitor)
        .subquery()
    )
    is_resumed = runs.c.started_at.is_not(None)
    window: dict[str, Any] = {
        "partition_by": (runs.c.visitor, is_resumed),
        "order_by": (runs.c.created_at, runs.c.id),
    }
    turn = case((is_resumed, 0), else_=func.row_number().over(**window))
    joined = func.first_value(func.coalesce(launches.c.joined, 0)).over(**window)
    # Doubled, so that adding 1 breaks the tie.
    since_joined, since_start = 2 * joined, func.coalesce(2 * served.c.start + 1, 0)
    waits_since = case((since_joined > since_start, since_joined), else_=since_start)
    return (
        select(
            runs.c.id,
            runs.c.created_at,
            func.coalesce(busy.c.running, 0).label("running"),
            turn.label("turn"),
            waits_since.label("waits_since"),
            func.first_value(runs.c.created_at)
            .over(**window)
            .label("first_created_at"),
            func.first_value(runs.c.id).over(**window).label("first_id"),
        )
        .outerjoin(launches, runs.c.id == launches.c.run_id)
        .outerjoin(busy, runs.c.visitor == busy.c.visitor)
        .outerjoin(served, runs.c.visitor == served.c.visitor)
        .where(runs.c.state == QUEUED)
    )

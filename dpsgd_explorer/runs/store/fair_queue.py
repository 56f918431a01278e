"""Fair order of queued runs: visitors take turns, whatever number of runs they queue.

Starts of runs are numbered.  The waiting time of a visitor begins at the later of two
starts: the start of the visitor's last run, and the last start by anyone before the
visitor's oldest queued run was created.  At a tie, the visitor to whom that start did
not belong goes first.  In each turn every visitor gets one run, in order of waiting
time.  A visitor with twenty queued runs therefore delays another visitor by at most one
run, and new visitors cannot overtake a waiting visitor forever.

Only starts change the order, and each start removes the first run, so a displayed
position remains correct unless a visitor joins or leaves.  A run that lost its worker
goes first, because its start has been counted already.

Source: start-time fair queueing (Goyal, Vin and Cheng, 1996), every run of length 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Select, case, func, select, update

from dpsgd_explorer.runs.store.schema import QUEUED, RUNNING, launches, runs

ORDER = ("turn", "waits_since", "first_created_at", "first_id", "created_at", "id")


def starts(connection: Connection) -> int:
    """Returns the largest number of a start among the stored launches."""
    newest = select(func.max(launches.c.started), func.max(launches.c.joined))
    return max(count or 0 for count in connection.execute(newest).one())


def count_start(connection: Connection, run_id: str) -> None:
    """Counts the first start of a run as a turn of the visitor."""
    number = starts(connection) + 1
    first = update(launches).where(
        launches.c.run_id == run_id, launches.c.started.is_(None)
    )
    connection.execute(first.values(started=number))


def running_of(connection: Connection, visitor: str) -> int:
    """Returns the number of a visitor's running runs."""
    query = select(func.count()).select_from(runs)
    query = query.where(runs.c.visitor == visitor, runs.c.state == RUNNING)
    return connection.scalar(query) or 0


def next_queued(connection: Connection, running_per_visitor: int | None) -> str | None:
    """Returns the id of the run to start next; None without one.

    Args:
        connection: An open transaction.
        running_per_visitor: Maximum number of running runs of a visitor; None sets no
            limit.
    """
    queued = _queued().subquery()
    query = select(queued.c.id).order_by(*(queued.c[name] for name in ORDER))
    if running_per_visitor is not None:
        query = query.where(queued.c.running < running_per_visitor)
    return connection.scalar(query.limit(1))


def position(connection: Connection, run_id: str) -> int | None:
    """Returns a run's position, 1 for the next one; None if it is not queued."""
    queued = _queued().subquery()
    place = func.row_number().over(order_by=[queued.c[name] for name in ORDER])
    places = select(queued.c.id, place.label("place")).subquery()
    return connection.scalar(select(places.c.place).where(places.c.id == run_id))


def in_order(connection: Connection) -> Sequence[str]:
    """Returns the ids of all queued runs, next run first."""
    queued = _queued().subquery()
    query = select(queued.c.id).order_by(*(queued.c[name] for name in ORDER))
    return connection.scalars(query).all()


def _queued() -> Select[Any]:
    """Returns the query of queued runs with turn and visitor's number of running runs.

    Visitors with equal waiting times are ordered by their first runs, in every turn.
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
    # Numbers of starts are doubled, so that adding 1 breaks ties.
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

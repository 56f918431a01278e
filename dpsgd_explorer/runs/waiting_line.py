"""Whose run is next: visitors take turns, whatever number each has queued.

A run's turn is the number of runs of its visitor that go before it, the running ones
included.  Lower turns go first, older runs first within a turn: someone who queues
twenty runs delays another visitor by one run at most.
"""

from __future__ import annotations

from sqlalchemy import Connection, Select, func, select

from dpsgd_explorer.runs.schema import QUEUED, RUNNING, runs


def next_in_line(connection: Connection, running_per_visitor: int | None) -> str | None:
    """Return the id of the run to start, or None.

    Args:
        connection: An open transaction.
        running_per_visitor: Visitors with this many running runs wait; None: no limit.
    """
    line = _line().subquery()
    query = select(line.c.id).order_by(line.c.turn, line.c.created_at, line.c.id)
    if running_per_visitor is not None:
        query = query.where(line.c.running < running_per_visitor)
    return connection.scalar(query.limit(1))


def position(connection: Connection, run_id: str) -> int | None:
    """Return 1 for the run that is next, and so on; None if it is not queued."""
    line = _line().subquery()
    mine = select(line).where(line.c.id == run_id).subquery()
    ahead = (
        (line.c.turn < mine.c.turn)
        | (line.c.turn == mine.c.turn) & (line.c.created_at < mine.c.created_at)
        | (line.c.turn == mine.c.turn)
        & (line.c.created_at == mine.c.created_at)
        & (line.c.id <= mine.c.id)
    )
    count = connection.scalar(select(func.count()).select_from(line.join(mine, ahead)))
    return count or None


def _line() -> Select[tuple[str, float, int, int]]:
    """Every queued run with its ``turn`` and how many its visitor has running."""
    busy = (
        select(runs.c.visitor, func.count().label("running"))
        .where(runs.c.state == RUNNING)
        .group_by(runs.c.visitor)
        .subquery()
    )
    running = func.coalesce(busy.c.running, 0)
    behind = func.row_number().over(
        partition_by=runs.c.visitor, order_by=(runs.c.created_at, runs.c.id)
    )
    return (
        select(
            runs.c.id,
            runs.c.created_at,
            running.label("running"),
            (running + behind).label("turn"),
        )
        .select_from(runs.outerjoin(busy, runs.c.visitor == busy.c.visitor))
        .where(runs.c.state == QUEUED)
    )

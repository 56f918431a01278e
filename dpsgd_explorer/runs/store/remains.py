"""What runs leave when they are over: trained weights, and a checkpoint to go on from.

Each is of bounded size and goes with its run: deleted, purged or swept as old.  Beyond
``MOST`` bytes of either, those of the runs that ended first go.  A run that can be
continued leaves its last checkpoint; without it, its steps are repeated from the start.
"""

from __future__ import annotations

import json

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    RowMapping,
    Table,
    delete,
    func,
    insert,
    select,
)

from dpsgd_explorer.experiments.kinds import parse
from dpsgd_explorer.runs.store.schema import CANCELLED, DONE, checkpoints, runs, weights

LARGEST = 4 * 2**20  # bytes of one run
MOST = 256 * 2**20  # bytes in all


def save_weights(connection: Connection, run_id: str, data: bytes, now: float) -> bool:
    """Store a run's weights instead of those before; False if they are too large."""
    if len(data) > LARGEST:
        return False
    connection.execute(delete(weights).where(weights.c.run_id == run_id))
    _make_room(connection, weights, weights, weights.c.stored_at, MOST - len(data))
    values = {"run_id": run_id, "data": data, "stored_at": now}
    connection.execute(insert(weights).values(values))
    return True


def load_weights(connection: Connection, run_id: str) -> bytes | None:
    """Return a run's weights, None if there are none."""
    query = select(weights.c.data).where(weights.c.run_id == run_id)
    data: bytes | None = connection.scalar(query)
    return data


def weights_size(connection: Connection, run_id: str) -> int:
    """Return the bytes of a run's weights, 0 if there are none."""
    query = select(func.length(weights.c.data)).where(weights.c.run_id == run_id)
    return connection.scalar(query) or 0


def leave_checkpoint(connection: Connection, run: RowMapping, state: str) -> None:
    """Delete the checkpoint of a run that ends so, unless it may go on from there.

    A run that is done has made a last one if it may.  A run that was stopped had no
    time to: the steps behind its newest are repeated.
    """
    mine = checkpoints.c.run_id == run["id"]
    size = None
    if state == DONE or (state == CANCELLED and _may_go_on(run)):
        query = select(func.length(checkpoints.c.data)).where(mine)
        if state == DONE:
            query = query.where(checkpoints.c.seq == run["last_seq"])
        size = connection.scalar(query)
    if size is None or size > LARGEST:
        connection.execute(delete(checkpoints).where(mine))
        return
    done = checkpoints.join(runs, runs.c.id == checkpoints.c.run_id)
    _make_room(connection, checkpoints, done, runs.c.ended_at, MOST - size)


def _may_go_on(run: RowMapping) -> bool:
    return not parse(json.loads(run["config"])).why_not_continued


def _make_room(
    connection: Connection,
    table: Table,
    source: FromClause,
    time: ColumnElement[float],
    most: int,
) -> None:
    """Delete the oldest rows until so many bytes are left; those without a time stay.

    Args:
        connection: An open transaction.
        table: Has the columns ``run_id`` and ``data``.
        source: The table, joined with where its time is.
        time: Of a row.
        most: Bytes that may stay.
    """
    length = func.length(table.c.data)
    newer = func.sum(length).over(order_by=[time.desc(), table.c.run_id])
    held = (
        select(table.c.run_id, newer.label("bytes"))
        .select_from(source)
        .where(time.is_not(None))
        .subquery()
    )
    beyond = select(held.c.run_id).where(held.c.bytes > most)
    connection.execute(delete(table).where(table.c.run_id.in_(beyond)))

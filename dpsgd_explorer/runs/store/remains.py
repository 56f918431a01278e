"""Stored results of ended runs: trained weights, and a checkpoint for a continuation.

Both have a maximum size and are deleted together with the run.  If the weights or the
checkpoints of all runs exceed ``MAX_TOTAL_BYTES``, the oldest are deleted.  A run that
can be continued keeps its last checkpoint; without one, the continuation repeats the
steps from the start.
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

MAX_RUN_BYTES = 4 * 2**20  # bytes per run
MAX_TOTAL_BYTES = 256 * 2**20  # bytes of all runs together


def save_weights(connection: Connection, run_id: str, data: bytes, now: float) -> bool:
    """Replaces the weights of a run; returns False if they are too large."""
    if len(data) > MAX_RUN_BYTES:
        return False
    connection.execute(delete(weights).where(weights.c.run_id == run_id))
    _make_room(
        connection, weights, weights, weights.c.stored_at, MAX_TOTAL_BYTES - len(data)
    )
    values = {"run_id": run_id, "data": data, "stored_at": now}
    connection.execute(insert(weights).values(values))
    return True


def load_weights(connection: Connection, run_id: str) -> bytes | None:
    """Returns the weights of a run; None without weights."""
    query = select(weights.c.data).where(weights.c.run_id == run_id)
    data: bytes | None = connection.scalar(query)
    return data


def weights_size(connection: Connection, run_id: str) -> int:
    """Returns the size of a run's weights in bytes; 0 without weights."""
    query = select(func.length(weights.c.data)).where(weights.c.run_id == run_id)
    return connection.scalar(query) or 0


def leave_checkpoint(connection: Connection, run: RowMapping, state: str) -> None:
    """Deletes the checkpoint of a run that ends, unless the run can be continued.

    A run that is done kept its checkpoint only if it was taken after the last event.  A
    stopped run keeps any checkpoint: its continuation repeats the later steps.

    Args:
        connection: An open transaction.
        run: The run.
        state: Final state of the run.
    """
    is_of_run = checkpoints.c.run_id == run["id"]
    size = None
    if state == DONE or (state == CANCELLED and _can_continue(run)):
        query = select(func.length(checkpoints.c.data)).where(is_of_run)
        if state == DONE:
            query = query.where(checkpoints.c.seq == run["last_seq"])
        size = connection.scalar(query)
    if size is None or size > MAX_RUN_BYTES:
        connection.execute(delete(checkpoints).where(is_of_run))
        return
    done = checkpoints.join(runs, runs.c.id == checkpoints.c.run_id)
    _make_room(connection, checkpoints, done, runs.c.ended_at, MAX_TOTAL_BYTES - size)


def _can_continue(run: RowMapping) -> bool:
    return not parse(json.loads(run["config"])).why_not_continued


def _make_room(
    connection: Connection,
    table: Table,
    source: FromClause,
    time: ColumnElement[float],
    most: int,
) -> None:
    """Deletes the oldest rows until at most ``most`` bytes are left.

    Args:
        connection: An open transaction.
        table: Table with the columns ``run_id`` and ``data``.
        source: The table, joined with the table of ``time``.
        time: Column with the time of a row; rows without a time are kept.
        most: Maximum number of bytes.
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

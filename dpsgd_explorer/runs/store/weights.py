"""Trained weights of runs that are done: one file per run, of bounded size.

They go with their run: deleted, purged or swept as old.  Beyond ``MOST`` bytes in all,
the oldest go first.
"""

from __future__ import annotations

from sqlalchemy import Connection, delete, func, insert, select

from dpsgd_explorer.runs.store.schema import weights

LARGEST = 4 * 2**20  # bytes of one run
MOST = 256 * 2**20  # bytes in all


def save(connection: Connection, run_id: str, data: bytes, now: float) -> bool:
    """Store a run's weights instead of those before; False if they are too large."""
    if len(data) > LARGEST:
        return False
    connection.execute(delete(weights).where(weights.c.run_id == run_id))
    _make_room(connection, len(data))
    values = {"run_id": run_id, "data": data, "stored_at": now}
    connection.execute(insert(weights).values(values))
    return True


def load(connection: Connection, run_id: str) -> bytes | None:
    """Return a run's weights, None if there are none."""
    query = select(weights.c.data).where(weights.c.run_id == run_id)
    data: bytes | None = connection.scalar(query)
    return data


def size(connection: Connection, run_id: str) -> int:
    """Return the bytes of a run's weights, 0 if there are none."""
    query = select(func.length(weights.c.data)).where(weights.c.run_id == run_id)
    return connection.scalar(query) or 0


def _make_room(connection: Connection, needed: int) -> None:
    """Delete the oldest weights until so many bytes more are within ``MOST``."""
    length = func.length(weights.c.data)
    newer = func.sum(length).over(
        order_by=[weights.c.stored_at.desc(), weights.c.run_id]
    )
    held = select(weights.c.run_id, newer.label("bytes")).subquery()
    beyond = select(held.c.run_id).where(held.c.bytes > MOST - needed)
    connection.execute(delete(weights).where(weights.c.run_id.in_(beyond)))

"""Orders of the operator: pause the queue, drain the site, end a run."""

from __future__ import annotations

from sqlalchemy import Connection, delete, select

from dpsgd_explorer.runs.store.site.tables import ended_runs, orders

QUEUE_PAUSED, DRAIN = "queue_paused", "drain"
ENDED = {
    "code": "ended_by_operator",
    "message": "the operator of this site ended the run.",
}


def pause_queue(connection: Connection, now: float) -> None:
    """Pauses the queue: no run starts, and running runs continue."""
    if queue_paused_at(connection) is None:
        values = {"name": QUEUE_PAUSED, "given_at": now}
        connection.execute(orders.insert().values(values))


def drain(connection: Connection, now: float) -> None:
    """Pauses the queue and orders workers to return running runs to it."""
    pause_queue(connection, now)
    if not drains(connection):
        connection.execute(orders.insert().values(name=DRAIN, given_at=now))


def drains(connection: Connection) -> bool:
    """Returns True if workers must return running runs to the queue."""
    query = select(orders.c.name).where(orders.c.name == DRAIN)
    return connection.scalar(query) is not None


def resume_queue(connection: Connection) -> None:
    """Resumes the queue, also after ``drain``."""
    names = (QUEUE_PAUSED, DRAIN)
    connection.execute(delete(orders).where(orders.c.name.in_(names)))


def queue_paused_at(connection: Connection) -> float | None:
    """Returns the unix seconds when the queue was paused; None if it is not."""
    query = select(orders.c.given_at).where(orders.c.name == QUEUE_PAUSED)
    return connection.scalar(query)


def note_end(connection: Connection, run_id: str, now: float) -> None:
    """Records that the operator ends a run."""
    if reason_of(connection, run_id) is None:
        values = {"run_id": run_id, "ended_at": now}
        connection.execute(ended_runs.insert().values(values))


def reason_of(connection: Connection, run_id: str) -> dict[str, str] | None:
    """Returns the error of a run that the operator ended; None for other runs."""
    query = select(ended_runs.c.run_id).where(ended_runs.c.run_id == run_id)
    return None if connection.scalar(query) is None else dict(ENDED)

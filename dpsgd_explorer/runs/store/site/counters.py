"""Counters that only grow, whatever runs are deleted."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, select, text

from dpsgd_explorer.runs.store.site.tables import counters

FINISHED, LEASE_LOST = "finished", "lease_lost"
#: Both of our databases have this form of INSERT, SQLAlchemy a construct for each.
ADD_ONE = text(
    "INSERT INTO counters (name, kind, state, value) "
    "VALUES (:name, :kind, :state, 1) "
    "ON CONFLICT (name, kind, state) DO UPDATE SET value = counters.value + 1"
)
# By dialect: the numbers of events are never used twice, so the newest is a count.
NUMBERED_EVENTS = {
    "sqlite": text("SELECT seq FROM sqlite_sequence WHERE name = 'events'"),
    "postgresql": text(
        "SELECT pg_sequence_last_value(pg_get_serial_sequence('events', 'id'))"
    ),
}


def count(connection: Connection, name: str, kind: str = "", state: str = "") -> None:
    """Add one, inside the transaction that does what is counted."""
    connection.execute(ADD_ONE, {"name": name, "kind": kind, "state": state})


def finished(connection: Connection) -> Mapping[tuple[str, str], int]:
    """Return the number of runs that ended, by kind and final state."""
    query = select(counters).where(counters.c.name == FINISHED)
    return {(row.kind, row.state): row.value for row in connection.execute(query)}


def lease_losses(connection: Connection) -> int:
    """Return how often a run lost its worker."""
    query = select(counters.c.value).where(counters.c.name == LEASE_LOST)
    return connection.scalar(query) or 0


def events(connection: Connection) -> int:
    """Return the number of the newest event, of which none is used twice."""
    return connection.scalar(NUMBERED_EVENTS[connection.dialect.name]) or 0

"""Counters that never decrease, even if runs are deleted."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, select, text

from dpsgd_explorer.runs.store.site.tables import counters

FINISHED, LEASE_LOST = "finished", "lease_lost"
#: SQLite and PostgreSQL share this syntax; SQLAlchemy needs one construct for each.
ADD_ONE = text(
    "INSERT INTO counters (name, kind, state, value) "
    "VALUES (:name, :kind, :state, 1) "
    "ON CONFLICT (name, kind, state) DO UPDATE SET value = counters.value + 1"
)
# Query of the newest event's id by dialect.  Ids are never reused, so it is a count.
NUMBERED_EVENTS = {
    "sqlite": text("SELECT seq FROM sqlite_sequence WHERE name = 'events'"),
    "postgresql": text(
        "SELECT pg_sequence_last_value(pg_get_serial_sequence('events', 'id'))"
    ),
}


def count(connection: Connection, name: str, kind: str = "", state: str = "") -> None:
    """Adds 1 to a counter, in the transaction of the counted change."""
    connection.execute(ADD_ONE, {"name": name, "kind": kind, "state": state})


def finished(connection: Connection) -> Mapping[tuple[str, str], int]:
    """Returns the number of ended runs by kind and final state."""
    query = select(counters).where(counters.c.name == FINISHED)
    return {(row.kind, row.state): row.value for row in connection.execute(query)}


def lease_losses(connection: Connection) -> int:
    """Returns the number of lost workers."""
    query = select(counters.c.value).where(counters.c.name == LEASE_LOST)
    return connection.scalar(query) or 0


def events(connection: Connection) -> int:
    """Returns the id of the newest event; ids are never reused."""
    return connection.scalar(NUMBERED_EVENTS[connection.dialect.name]) or 0

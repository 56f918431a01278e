"""The tables, the states of a run and the moves between them.

| state | meaning |
|---|---|
| ``queued`` | waits for a worker, for the first time or to be resumed |
| ``running`` | a worker holds the lease; queued again if that is lost |
| ``paused`` | its visitor paused it; its worker keeps the lease for a while |
| ``done`` | every planned step was taken, or the budget was reached |
| ``failed`` | the run's own fault: diverged, over its time or memory |
| ``cancelled`` | its visitor stopped it |
| ``interrupted`` | our fault: storage full, worker lost too often |
"""

from __future__ import annotations

from sqlalchemy import (
    DDL,
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
    UniqueConstraint,
    event,
)

from dpsgd_explorer.runs.database.upgrade import version_tables
from dpsgd_explorer.runs.store.site.class_tables import classes as classes
from dpsgd_explorer.runs.store.site.tables import metadata as metadata

QUEUED, RUNNING, PAUSED = "queued", "running", "paused"
DONE, FAILED, CANCELLED, INTERRUPTED = "done", "failed", "cancelled", "interrupted"
#: Code of the error of a run whose own audit refutes its promise.
VIOLATION = "privacy_violation"
FINAL_STATES = frozenset({DONE, FAILED, CANCELLED, INTERRUPTED})
MOVES: dict[str, frozenset[str]] = {
    QUEUED: frozenset({RUNNING, CANCELLED, INTERRUPTED}),
    RUNNING: FINAL_STATES | {QUEUED, PAUSED},
    PAUSED: FINAL_STATES | {QUEUED, RUNNING},
    **{state: frozenset() for state in FINAL_STATES},
}

version_tables(metadata)

# Times are unix seconds; JSON is kept as text, so that it comes back as it was stored.
runs = Table(
    "runs",
    metadata,
    Column("id", String(43), primary_key=True),
    Column("kind", String(20), nullable=False),
    Column("state", String(12), nullable=False, index=True),
    Column("visitor", String(64), nullable=False),
    Column("name", String(60), nullable=False),
    # The name that follows from the settings, see labels.entitle:
    Column("title", Text),
    Column("group", String(60), nullable=False),
    Column("parent", String(43), nullable=False),
    Column("note", String(500), nullable=False, default="", server_default=""),
    Column("starred", Boolean, nullable=False, default=False, server_default="0"),
    Column("deleted_at", Float),  # see deletion; such a run is in no list
    Column("config", Text, nullable=False),
    Column("summary", Text, nullable=False, default="{}"),
    Column("error", Text),
    Column("step", Integer, nullable=False, default=0),
    Column("steps", Integer, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("started_at", Float),
    Column("ended_at", Float),
    Column("last_seq", Integer, nullable=False, default=0),
    # For the worker only:
    Column("fence", Integer, nullable=False, default=0),
    Column("lease_until", Float),  # by the lease clock, see leases
    Column("holder", String(120)),
    Column("tries", Integer, nullable=False, default=0),
    Column("cancel", Boolean, nullable=False, default=False),
    # Orders of the visitor, see pauses and changes:
    Column("until_step", Integer),
    Column("changes", Text),
    Index("runs_of_visitor", "visitor", "created_at"),
    Index("deleted_runs", "deleted_at"),
)

# Runs that were made together; their column "group" holds the id.
groups = Table(
    "groups",
    metadata,
    Column("id", String(43), primary_key=True),
    Column("visitor", String(64), nullable=False),
    Column("purpose", String(20), nullable=False),
    Column("setting", String(40), nullable=False),
    Column("created_at", Float, nullable=False),
)

# The id orders events over all runs and is never used twice; seq counts within a run.
events = Table(
    "events",
    metadata,
    Column(
        "id",
        BigInteger().with_variant(Integer, "sqlite"),
        primary_key=True,
        autoincrement=True,
    ),
    Column("run_id", String(43), nullable=False),
    Column("seq", Integer, nullable=False),
    Column("kind", String(12), nullable=False),
    Column("data", Text, nullable=False),
    UniqueConstraint("run_id", "seq"),
    sqlite_autoincrement=True,
)

# PostgreSQL tells the listeners of this channel, at each commit, that there are more.
EVENTS_CHANNEL = "dpsgd_events"
for _statement in (
    "CREATE OR REPLACE FUNCTION tell_of_events() RETURNS trigger AS $$ BEGIN"
    f" PERFORM pg_notify('{EVENTS_CHANNEL}', ''); RETURN NULL;"
    " END $$ LANGUAGE plpgsql",
    "CREATE OR REPLACE TRIGGER tell_of_events AFTER INSERT ON events"
    " FOR EACH STATEMENT EXECUTE FUNCTION tell_of_events()",
):
    _told = DDL(_statement)  # type: ignore[no-untyped-call]
    event.listen(events, "after_create", _told.execute_if(dialect="postgresql"))

checkpoints = Table(
    "checkpoints",
    metadata,
    Column("run_id", String(43), primary_key=True),
    Column("seq", Integer, nullable=False),
    Column("data", LargeBinary, nullable=False),
    # The program that made it, see worker.program; "": unknown.
    Column("program", String(40), nullable=False, default="", server_default=""),
)

# What runs of some kinds trained, once they are done.
weights = Table(
    "weights",
    metadata,
    Column("run_id", String(43), primary_key=True),
    Column("data", LargeBinary, nullable=False),
    Column("stored_at", Float, nullable=False),
)

# What was asked for lately, kept when a run is deleted: quotas and turns count these.
launches = Table(
    "launches",
    metadata,
    Column("run_id", String(43), primary_key=True),
    Column("visitor", String(64), nullable=False),
    Column("network", String(43), nullable=False),
    Column("launch", String(60), nullable=False),
    # The class whose quota counts it, "" if none does:
    Column("class_id", String(16), nullable=False, default="", server_default=""),
    Column("cost", Float, nullable=False),
    Column("at", Float, nullable=False),
    # Counts of starts, see fair_queue:
    Column("joined", Integer, nullable=False),
    Column("started", Integer),
    Index("launches_of_visitor", "visitor", "at"),
    Index("launches_of_network", "network", "at"),
)

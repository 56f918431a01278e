"""Tables of runs, the states of a run and the transitions between them.

| state | meaning |
|---|---|
| ``queued`` | waits for a worker, for the first time or to be resumed |
| ``running`` | a worker holds the lease; queued again if the worker is lost |
| ``paused`` | its visitor paused it; its worker keeps the lease for a while |
| ``done`` | every planned step was taken, or the budget was reached |
| ``failed`` | fault of the run: diverged, or exceeded its time or memory |
| ``cancelled`` | its visitor stopped it |
| ``interrupted`` | fault of the site: storage full, worker lost too often |
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
#: Error code of a run whose audit contradicts its privacy guarantee.
VIOLATION = "privacy_violation"
FINAL_STATES = frozenset({DONE, FAILED, CANCELLED, INTERRUPTED})
MOVES: dict[str, frozenset[str]] = {
    QUEUED: frozenset({RUNNING, CANCELLED, INTERRUPTED}),
    RUNNING: FINAL_STATES | {QUEUED, PAUSED},
    PAUSED: FINAL_STATES | {QUEUED, RUNNING},
    **{state: frozenset() for state in FINAL_STATES},
}

version_tables(metadata)

# Times are unix seconds.  JSON is stored as text, so that reading returns equal bytes.
runs = Table(
    "runs",
    metadata,
    Column("id", String(43), primary_key=True),
    Column("kind", String(20), nullable=False),
    Column("state", String(12), nullable=False, index=True),
    Column("visitor", String(64), nullable=False),
    Column("name", String(60), nullable=False),
    # Name derived from the settings, see labels.entitle:
    Column("title", Text),
    Column("group", String(60), nullable=False),
    Column("parent", String(43), nullable=False),
    Column("note", String(500), nullable=False, default="", server_default=""),
    Column("starred", Boolean, nullable=False, default=False, server_default="0"),
    Column("deleted_at", Float),  # a deleted run is in no list, see deletion
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
    # Orders of the visitor, see pauses:
    Column("until_step", Integer),
    Column("changes", Text),
    Index("runs_of_visitor", "visitor", "created_at"),
    Index("deleted_runs", "deleted_at"),
)

# Runs that were created together; the id is in their column "group".
groups = Table(
    "groups",
    metadata,
    Column("id", String(43), primary_key=True),
    Column("visitor", String(64), nullable=False),
    Column("purpose", String(20), nullable=False),
    Column("setting", String(40), nullable=False),
    Column("created_at", Float, nullable=False),
)

# The id orders the events of all runs and is never reused; seq counts within a run.
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

# PostgreSQL notifies the listeners of this channel at each commit with new events.
EVENTS_CHANNEL = "dpsgd_events"
for _statement in (
    "CREATE OR REPLACE FUNCTION tell_of_events() RETURNS trigger AS $$ BEGIN"
    f" PERFORM pg_notify('{EVENTS_CHANNEL}', ''); RETURN NULL;"
    " END $$ LANGUAGE plpgsql",
    "CREATE OR REPLACE TRIGGER tell_of_events AFTER INSERT ON events"
    " FOR EACH STATEMENT EXECUTE FUNCTION tell_of_events()",
):
    _ddl = DDL(_statement)  # type: ignore[no-untyped-call]
    event.listen(events, "after_create", _ddl.execute_if(dialect="postgresql"))

checkpoints = Table(
    "checkpoints",
    metadata,
    Column("run_id", String(43), primary_key=True),
    Column("seq", Integer, nullable=False),
    Column("data", LargeBinary, nullable=False),
    # Program that created the checkpoint, see worker.program; "" if unknown.
    Column("program", String(40), nullable=False, default="", server_default=""),
)

# Trained weights of finished runs, for kinds of runs that store them.
weights = Table(
    "weights",
    metadata,
    Column("run_id", String(43), primary_key=True),
    Column("data", LargeBinary, nullable=False),
    Column("stored_at", Float, nullable=False),
)

# Launches of the last day, which quotas and the fair queue count.  They are kept when a
# run is deleted.
launches = Table(
    "launches",
    metadata,
    Column("run_id", String(43), primary_key=True),
    Column("visitor", String(64), nullable=False),
    Column("network", String(43), nullable=False),
    Column("launch", String(60), nullable=False),
    # Class whose quota counts the launch; "" without a class.
    Column("class_id", String(16), nullable=False, default="", server_default=""),
    Column("cost", Float, nullable=False),
    Column("at", Float, nullable=False),
    # Numbers of starts, see fair_queue:
    Column("joined", Integer, nullable=False),
    Column("started", Integer),
    Index("launches_of_visitor", "visitor", "at"),
    Index("launches_of_network", "network", "at"),
)

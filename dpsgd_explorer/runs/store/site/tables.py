"""Tables of the site: counters, workers, orders, visitors' own tables."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)

#: Metadata of all tables of the database.
metadata = MetaData()

# Counts since the database was created; deleting runs does not change them.
counters = Table(
    "counters",
    metadata,
    Column("name", String(20), primary_key=True),
    Column("kind", String(20), primary_key=True),
    Column("state", String(12), primary_key=True),
    Column("value", BigInteger, nullable=False),
)

# Times are unix seconds by the database's clock, see Database.clock.
workers = Table(
    "workers",
    metadata,
    Column("name", String(120), primary_key=True),
    Column("host", String(80), nullable=False),
    Column("version", String(20), nullable=False),
    Column("places", Integer, nullable=False),
    Column("busy", Integer, nullable=False),
    Column("started_at", Float, nullable=False),
    Column("seen_at", Float, nullable=False),
)

# Orders of the operator that are in force.
orders = Table(
    "orders",
    metadata,
    Column("name", String(20), primary_key=True),
    Column("given_at", Float, nullable=False),
)

# Runs that the operator ended, or asked a worker to end.
ended_runs = Table(
    "ended_runs",
    metadata,
    Column("run_id", String(43), primary_key=True),
    Column("ended_at", Float, nullable=False),
)

# Files that visitors uploaded to train on.
own_tables = Table(
    "own_tables",
    metadata,
    Column("owner", String(32), primary_key=True),  # a hash of the visitor's name
    Column("name", String(64), primary_key=True),  # of a draft: the file's hash
    Column("stated", Text),  # description of the columns; null for a draft
    Column("content", LargeBinary, nullable=False),
    Column("stored_at", Float, nullable=False),
    Column("title", String(80), nullable=False, server_default=""),
)

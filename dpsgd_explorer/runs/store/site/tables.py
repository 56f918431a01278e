"""The tables of the site: counters, workers, orders, visitors' own tables."""

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

#: Of all tables of the database.
metadata = MetaData()

# What was counted since the database was made; pruning runs changes none.
counters = Table(
    "counters",
    metadata,
    Column("name", String(20), primary_key=True),
    Column("kind", String(20), primary_key=True),
    Column("state", String(12), primary_key=True),
    Column("value", BigInteger, nullable=False),
)

# Times are unix seconds by the database's clock, see clock.
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

# A row is an order that holds.
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

# Files that visitors brought to train on.
own_tables = Table(
    "own_tables",
    metadata,
    Column("owner", String(32), primary_key=True),  # a hash of the visitor's name
    Column("name", String(64), primary_key=True),  # the file's hash until it is stated
    Column("stated", Text),  # what its columns hold; None: not stated yet
    Column("content", LargeBinary, nullable=False),
    Column("stored_at", Float, nullable=False),
)

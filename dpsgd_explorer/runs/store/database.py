"""Connections to the database, and its faults in our own words.

SQLite runs in WAL mode, so readers never wait for a writer.  A write transaction
starts with BEGIN IMMEDIATE: without it, one that reads first and then writes would be
refused with "database is locked" whenever another wrote in between.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import (
    Connection,
    create_engine,
    event,
    insert,
    inspect,
    select,
    update,
)
from sqlalchemy.engine import Engine
from sqlalchemy.exc import DBAPIError

from dpsgd_explorer.errors import ConfigError, StorageBusyError, StorageFullError
from dpsgd_explorer.runs.files.disk_reserve import DiskReserve, storage_full
from dpsgd_explorer.runs.files.private_file import private_file
from dpsgd_explorer.runs.store import schema

# SQLite's own waiting; what goes beyond it is ours.
BUSY_TIMEOUT_SECONDS = 5.0
PATIENCE_SECONDS = 12.0
INCREMENTAL = 2  # free pages are given back when asked for
SET_AUTO_VACUUM = f"PRAGMA auto_vacuum = {INCREMENTAL}"


class Database:
    """One pool of connections to the database at ``url``."""

    def __init__(self, url: str, *, patience_s: float = PATIENCE_SECONDS) -> None:
        """Open the database; a new one gets its tables.

        Args:
            url: SQLAlchemy's form of address.
            patience_s: How long a write waits while another process writes.

        Raises:
            ConfigError: an address we cannot use, or a database of another version.
        """
        file = private_file("DPSGD_DATABASE_URL", url, "runs.sqlite3")
        self._file = file
        self._patience_s = patience_s
        self._reserve = DiskReserve(file.with_name(f"{file.name}.reserve"))
        self.engine = _engine(
            url, file, busy_timeout_s=min(patience_s, BUSY_TIMEOUT_SECONDS)
        )
        self._writer = self.engine.execution_options(begin="BEGIN IMMEDIATE")
        with self.write(ends=True) as connection:
            _create_tables(connection)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a connection that sees one state of the database throughout."""
        with _translated(), self.engine.begin() as connection:
            yield connection

    @contextmanager
    def write(self, *, ends: bool = False) -> Iterator[Connection]:
        """Open a transaction that commits at the end, or changes nothing.

        Args:
            ends: It ends a run or frees space, and may use the disk reserve.

        Raises:
            StorageFullError: the disk is full.
            StorageBusyError: another process kept the database for too long.
        """
        if not ends:
            self._reserve.demand()
        try:
            with _translated(), self._begun() as connection:
                yield connection
                connection.commit()
        except StorageFullError:
            self._reserve.release()
            raise

    @property
    def size(self) -> int:
        """Bytes that the database takes on the disk."""
        files = (self._file.with_name(self._file.name + end) for end in ("", "-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    def shrink(self, pages: int) -> int:
        """Give some free pages back to the disk; return how many."""
        with self.write(ends=True) as connection:
            before = connection.exec_driver_sql("PRAGMA freelist_count").scalar() or 0
            # Each page is a row without columns, which SQLAlchemy does not fetch.
            cursor = connection.connection.cursor()
            cursor.execute(f"PRAGMA incremental_vacuum({pages})").fetchall()
            after = connection.exec_driver_sql("PRAGMA freelist_count").scalar() or 0
            return before - after

    def compact(self) -> None:
        """Give all free pages back; a database of an older version is rewritten."""
        with _translated(), self._writer.connect() as connection:
            cursor = connection.connection.cursor()  # no transaction: these need none
            if cursor.execute("PRAGMA auto_vacuum").fetchone() != (INCREMENTAL,):
                cursor.execute(SET_AUTO_VACUUM)
                cursor.execute("VACUUM")
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        """Close every connection that is not in use."""
        self.engine.dispose()

    def _begun(self) -> Connection:
        """Return a connection whose write transaction has begun."""
        end = time.monotonic() + self._patience_s
        while True:
            connection = self._writer.connect()
            try:
                connection.begin()
            except DBAPIError as error:
                connection.close()
                is_busy = isinstance(_translation(error), StorageBusyError)
                if not is_busy or time.monotonic() >= end:
                    raise
            else:
                return connection


def _engine(url: str, file: Path, *, busy_timeout_s: float) -> Engine:
    # As many connections as there are threads to use them: none waits for another's.
    engine = create_engine(url, pool_size=8, max_overflow=-1)

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None  # we begin transactions ourselves
        connection.execute(f"PRAGMA busy_timeout = {round(busy_timeout_s * 1000)}")
        if not file.stat().st_size:  # only there, for it waits for writers
            connection.execute(SET_AUTO_VACUUM)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")

    event.listen(engine, "begin", _begin)
    return engine


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get("begin", "BEGIN"))


def _create_tables(connection: Connection) -> None:
    version = _version(connection)
    while version in schema.MIGRATIONS:
        for statement in schema.MIGRATIONS[version]:
            connection.exec_driver_sql(statement)
        version += 1
        connection.execute(update(schema.schema_version).values(version=version))
    if version not in (None, schema.SCHEMA_VERSION):
        raise ConfigError(
            "DPSGD_DATABASE_URL",
            f"the database has schema {version}, this program needs "
            f"{schema.SCHEMA_VERSION}; move the file away to start with a new one.",
        )
    schema.metadata.create_all(connection)
    if version is None:
        made = insert(schema.schema_version).values(version=schema.SCHEMA_VERSION)
        connection.execute(made)


def _version(connection: Connection) -> int | None:
    """Return the schema that a database has; None if it is new."""
    if not inspect(connection).has_table(schema.schema_version.name):
        return None
    return connection.scalar(select(schema.schema_version.c.version))


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except DBAPIError as error:
        ours = _translation(error)
        if ours is None:
            raise
        raise ours from error


def _translation(error: DBAPIError) -> StorageFullError | StorageBusyError | None:
    # The low byte is the primary code; the rest is the place in SQLite.
    code: Any = getattr(error.orig, "sqlite_errorcode", None)
    primary = code & 0xFF if isinstance(code, int) else None
    if primary == sqlite3.SQLITE_FULL:
        return storage_full()
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StorageBusyError(
            "the database was kept by another process for too long; retry soon."
        )
    return None

"""SQLite: one file, the processes of one machine.

It runs in WAL mode, so readers never wait for a writer.  A write transaction starts
with BEGIN IMMEDIATE: without it, one that reads first and then writes would be refused
with "database is locked" whenever another wrote in between.
"""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, create_engine, event
from sqlalchemy.engine import Engine
from sqlalchemy.exc import DBAPIError

from dpsgd_explorer.errors import ExplorerError
from dpsgd_explorer.runs.database.backend import WRITES, Backend, Wake, storage_busy
from dpsgd_explorer.runs.files.disk_reserve import (
    DiskReserve,
    storage_full,
    storage_read_only,
)
from dpsgd_explorer.runs.files.private_file import private_file

# SQLite's own waiting; what goes beyond it is ours.
BUSY_TIMEOUT_SECONDS = 5.0
# The write-ahead log is cut back to this after a burst of writes.
LOG_BYTES = 4 * 2**20
INCREMENTAL = 2  # free pages are given back when asked for
SET_AUTO_VACUUM = f"PRAGMA auto_vacuum = {INCREMENTAL}"


class Poll(Wake):
    """Looks again after a while: no process tells another of its writes."""

    def __init__(self, poll_s: float) -> None:
        self._poll_s = poll_s

    def wait(self) -> None:
        time.sleep(self._poll_s)

    def close(self) -> None:
        """Do nothing."""


class Sqlite(Backend):
    """The file of an address; a new one is made."""

    is_embedded = True

    def __init__(self, url: str, *, patience_s: float) -> None:
        """Open the pool.

        Args:
            url: SQLAlchemy's form of address.
            patience_s: How long a write waits while another process writes.

        Raises:
            ConfigError: it is not the address of a SQLite file on this machine.
        """
        self._file = private_file("DPSGD_DATABASE_URL", url, "runs.sqlite3")
        self._reserve = DiskReserve(self._file.with_name(f"{self._file.name}.reserve"))
        self.engine = _engine(
            url, self._file, busy_timeout_s=min(patience_s, BUSY_TIMEOUT_SECONDS)
        )
        event.listen(self.engine, "begin", self.begin)

    def begin(self, connection: Connection) -> None:
        writes = connection.get_execution_options().get(WRITES)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    def translation(self, error: DBAPIError) -> ExplorerError | None:
        # The low byte is the primary code; the rest is the place in SQLite.
        code: Any = getattr(error.orig, "sqlite_errorcode", None)
        primary = code & 0xFF if isinstance(code, int) else None
        if primary == sqlite3.SQLITE_FULL:
            return storage_full()
        if primary == sqlite3.SQLITE_READONLY:
            return storage_read_only()
        if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return storage_busy()
        return None

    def clock(self) -> float:
        return time.time()

    def lease_clock(self) -> float:
        return time.monotonic()

    def demand_reserve(self) -> None:
        self._reserve.demand()

    def release_reserve(self) -> None:
        self._reserve.release()

    def wake(self, channel: str, poll_s: float) -> Wake:
        return Poll(poll_s)

    @property
    def size(self) -> int:
        files = (self._file.with_name(self._file.name + end) for end in ("", "-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    def shrink(self, connection: Connection, pages: int) -> int:
        before = connection.exec_driver_sql("PRAGMA freelist_count").scalar() or 0
        # Each page is a row without columns, which SQLAlchemy does not fetch.
        cursor = connection.connection.cursor()
        cursor.execute(f"PRAGMA incremental_vacuum({pages})").fetchall()
        after = connection.exec_driver_sql("PRAGMA freelist_count").scalar() or 0
        return before - after

    def compact(self, connection: Connection) -> None:
        """Give all free pages back; a database of an older version is rewritten."""
        cursor = connection.connection.cursor()
        if cursor.execute("PRAGMA auto_vacuum").fetchone() != (INCREMENTAL,):
            cursor.execute(SET_AUTO_VACUUM)
            cursor.execute("VACUUM")
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


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
        connection.execute(f"PRAGMA journal_size_limit = {LOG_BYTES}")

    return engine

"""SQLite, for the processes of one machine.

The file is in WAL mode, so readers never wait for a writer.  A write transaction starts
with BEGIN IMMEDIATE.  Without it, a transaction that reads before it writes would fail
with "database is locked" if another process wrote in between.
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
from dpsgd_explorer.runs.files import named_pipes
from dpsgd_explorer.runs.files.disk_reserve import (
    DiskReserve,
    storage_full,
    storage_read_only,
)
from dpsgd_explorer.runs.files.private_file import private_file

# Timeout of one attempt to lock the file; Database retries until its patience ends.
BUSY_TIMEOUT_SECONDS = 5.0
# Minimum time between two readings of the log by a listener.
PAUSE_SECONDS = 0.1
# A listener reads the log after this time even if it hears of no commit.
SAFETY_SECONDS = 2.0
# Size to which the write-ahead log is truncated after a burst of writes.
LOG_BYTES = 4 * 2**20
INCREMENTAL = 2  # free pages are released by PRAGMA incremental_vacuum
SET_AUTO_VACUUM = f"PRAGMA auto_vacuum = {INCREMENTAL}"


class CommitListener(Wake):
    """Waits for commits of all processes to a file, see ``named_pipes``."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._listener: named_pipes.Listener | None = None
        self._due = 0.0

    def wait(self) -> None:
        if self._listener is None:
            self._listener = named_pipes.Listener(self._file)
            return  # earlier commits were not heard
        time.sleep(max(0.0, self._due - time.monotonic()))
        self._listener.wait(SAFETY_SECONDS)
        self._due = time.monotonic() + PAUSE_SECONDS

    def close(self) -> None:
        if self._listener is not None:
            self._listener.close()


class Sqlite(Backend):
    """A SQLite file, which is created if it does not exist."""

    is_embedded = True

    def __init__(self, url: str, *, patience_s: float) -> None:
        """Creates the file and the pool.

        Args:
            url: SQLAlchemy URL.
            patience_s: Seconds that a write waits while another process writes.

        Raises:
            ConfigError: The address is not a SQLite file on a disk of this machine.
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
        # The low byte is the primary code; the other bytes extend it.
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

    def announce_commit(self) -> None:
        named_pipes.wake(self._file)

    def wake(self, channel: str) -> Wake:
        return CommitListener(self._file)

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
        """Releases all free pages; rewrites a file without incremental vacuum."""
        cursor = connection.connection.cursor()
        if cursor.execute("PRAGMA auto_vacuum").fetchone() != (INCREMENTAL,):
            cursor.execute(SET_AUTO_VACUUM)
            cursor.execute("VACUUM")
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _engine(url: str, file: Path, *, busy_timeout_s: float) -> Engine:
    # Without an upper limit, no thread waits for a connection of another.
    engine = create_engine(url, pool_size=8, max_overflow=-1)

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None  # we begin transactions ourselves
        connection.execute(f"PRAGMA busy_timeout = {round(busy_timeout_s * 1000)}")
        if not file.stat().st_size:  # in a new file only, because it waits for writers
            connection.execute(SET_AUTO_VACUUM)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA journal_size_limit = {LOG_BYTES}")

    return engine

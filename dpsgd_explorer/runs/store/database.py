"""Transactions of either kind of database, with errors translated to our classes."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, TypedDict

from sqlalchemy import Connection
from sqlalchemy.engine import Engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from dpsgd_explorer.errors import (
    ConfigError,
    ExplorerError,
    StorageBusyError,
    StorageFullError,
    StorageReadOnlyError,
    StorageUnreachableError,
)
from dpsgd_explorer.runs.database import upgrade
from dpsgd_explorer.runs.database.address import POSTGRESQL, kind_of, shown
from dpsgd_explorer.runs.database.backend import WRITES, Backend, Wake
from dpsgd_explorer.runs.database.sqlite import Sqlite
from dpsgd_explorer.runs.store import schema

# Time that a write waits for writes of other processes.
PATIENCE_SECONDS = 12.0
# Time for which a lost server is tried again before a request fails.
OUTAGE_SECONDS = 1.0
# Time limit of a statement; if it is exceeded, the server or the network hangs.
ANSWER_SECONDS = 3.0
# Minimum outage at the start of a process, when the server may be starting too.
OPEN_SECONDS = 5.0
RETRY_SECONDS = 0.2


class Waits(TypedDict, total=False):
    """Waiting times of a transaction, see ``Database``."""

    patience_s: float
    outage_s: float


class Database:
    """One pool of connections to the database at ``url``."""

    def __init__(
        self,
        url: str,
        *,
        patience_s: float = PATIENCE_SECONDS,
        outage_s: float = OUTAGE_SECONDS,
        answer_s: float | None = ANSWER_SECONDS,
        on_open: Literal["check", "upgrade", "look"] = "check",
    ) -> None:
        """Opens the database; an embedded one is migrated to the current version.

        Args:
            url: SQLAlchemy URL.
            patience_s: Seconds that a write waits while another process writes.
            outage_s: Seconds that a transaction waits for a lost server.
            answer_s: Time limit of a statement in seconds; None sets no limit, for
                migrations that rewrite a table.
            on_open: "check" migrates the tables of a file, and rejects a server's
                tables of another version.  "upgrade" migrates both, "look" does
                neither.

        Raises:
            ConfigError: The address is not supported, the server does not answer, or
                the tables have another version.
        """
        self._url = url
        self._patience_s, self._outage_s = patience_s, max(outage_s, OPEN_SECONDS)
        self._backend = _backend(url, patience_s, answer_s)
        self._writer = self._backend.engine.execution_options(**{WRITES: True})
        is_upgraded = self._backend.is_embedded and on_open == "check"
        self._open("upgrade" if is_upgraded else on_open)
        self._outage_s = outage_s

    @property
    def engine(self) -> Engine:
        """Pool of connections."""
        return self._backend.engine

    @property
    def is_embedded(self) -> bool:
        """True if all processes that use the database are on this machine."""
        return self._backend.is_embedded

    def clock(self) -> float:
        """Returns unix seconds by the server's clock, or this machine's for a file."""
        with self._translated():
            return self._backend.clock()

    def lease_clock(self) -> float:
        """Returns seconds by a clock that all processes share and nobody sets."""
        with self._translated():
            return self._backend.lease_clock()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Opens a connection that sees a single state of the database."""
        with self._translated(), self._begun(self.engine) as connection:
            yield connection

    @contextmanager
    def write(self, *, ends: bool = False) -> Iterator[Connection]:
        """Opens a transaction, which is rolled back if the context raises an error.

        Args:
            ends: If True, the transaction ends a run or frees space, and may use the
                disk reserve.

        Raises:
            StorageFullError: The disk is full.
            StorageBusyError: Another process locked the database for too long.
            StorageUnreachableError: The connection is lost, and nothing was changed.
        """
        if not ends:
            self._backend.demand_reserve()
        try:
            with self._translated(), self._begun(self._writer) as connection:
                yield connection
                self._commit(connection)
            self._backend.announce_commit()
        except StorageFullError:
            self._backend.release_reserve()
            raise

    @property
    def size(self) -> int:
        """Size of the database on the disk, in bytes."""
        with self._translated():
            return self._backend.size

    def shrink(self, pages: int) -> int:
        """Releases up to ``pages`` free pages to the disk; returns their number."""
        with self.write(ends=True) as connection:
            return self._backend.shrink(connection, pages)

    def compact(self) -> None:
        """Releases all free pages to the disk."""
        with self._translated(), self._writer.connect() as connection:
            self._backend.compact(connection)

    def wake(self) -> Wake:
        """Returns an object that waits for events."""
        return self._backend.wake(schema.EVENTS_CHANNEL)

    def close(self) -> None:
        """Closes every idle connection."""
        self.engine.dispose()

    def revision(self) -> str | None:
        """Returns the version of the tables; None without tables."""
        with self.read() as connection:
            return upgrade.revision(connection)

    def _open(self, what: str) -> None:
        try:
            if what == "upgrade":
                with self.write(ends=True) as connection:
                    upgrade.upgrade(connection, schema.metadata, self._url)
            else:
                with self.read() as connection:
                    if what == "check":
                        upgrade.check(connection, self._url)
        except StorageUnreachableError as error:
            self.close()
            reason = " ".join(str(error.__cause__.orig).split())  # type: ignore[union-attr]
            raise ConfigError(
                "DPSGD_DATABASE_URL",
                f"DPSGD_DATABASE_URL: the database {shown(self._url)} cannot be "
                f"reached, tried for {OPEN_SECONDS:g} seconds: {reason}",
            ) from None
        except ExplorerError:
            self.close()
            raise

    def _begun(self, engine: Engine) -> Connection:
        """Returns a connection with an open transaction."""
        begin = time.monotonic()
        while True:
            connection = None
            try:
                connection = engine.connect()
                connection.begin()
            except (DBAPIError, PoolTimeoutError) as error:
                if connection is not None:
                    connection.close()
                ours = self._translation(error)
                wait_s = self._longest_wait(ours)
                if isinstance(error, PoolTimeoutError) and wait_s < math.inf:
                    raise  # the pool has waited already, and a request must end soon
                if time.monotonic() - begin >= wait_s:
                    raise
                if isinstance(ours, StorageUnreachableError):
                    time.sleep(RETRY_SECONDS)
            else:
                return connection

    def _longest_wait(self, error: ExplorerError | None) -> float:
        if isinstance(error, StorageUnreachableError):
            return self._outage_s
        if isinstance(error, StorageReadOnlyError):
            return -math.inf  # only the operator can change this
        return self._patience_s if isinstance(error, StorageBusyError) else -math.inf

    def _commit(self, connection: Connection) -> None:
        transaction = self._backend.transaction_id(connection)
        try:
            connection.commit()
        except DBAPIError as error:
            if not isinstance(self._translation(error), StorageUnreachableError):
                raise
            if not self._backend.was_committed(transaction, self._patience_s):
                raise

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (DBAPIError, PoolTimeoutError) as error:
            ours = self._translation(error)
            if ours is None:
                raise
            raise ours from error

    def _translation(
        self, error: DBAPIError | PoolTimeoutError
    ) -> ExplorerError | None:
        if isinstance(error, PoolTimeoutError):
            return StorageBusyError(
                "every connection of this process to the database is in use; retry "
                "soon."
            )
        return self._backend.translation(error)


def _backend(url: str, patience_s: float, answer_s: float | None) -> Backend:
    if kind_of(url) != POSTGRESQL:
        return Sqlite(url, patience_s=patience_s)
    # Imported here because an installation with SQLite has no PostgreSQL driver.
    from dpsgd_explorer.runs.database.postgresql import Postgresql

    return Postgresql(url, patience_s=patience_s, answer_s=answer_s)

"""Transactions of the database, whichever kind it is, and its faults in our words."""

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

PATIENCE_SECONDS = 12.0
# A server that is gone is tried for this long before an answer says so.
OUTAGE_SECONDS = 1.0
# A statement that takes longer is given up: its server hangs, or the network is cut.
ANSWER_SECONDS = 3.0
# When a process starts, the server may be starting too.
OPEN_SECONDS = 5.0
RETRY_SECONDS = 0.2


class Waits(TypedDict, total=False):
    """How long a transaction waits, see ``Database``."""

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
        """Open the database; an embedded one gets the present version's tables.

        Args:
            url: SQLAlchemy's form of address.
            patience_s: How long a write waits while another process writes.
            outage_s: How long a transaction waits for a server that is gone.
            answer_s: How long a statement waits for a server that hangs; None: for
                ever, since it may change a whole table.
            on_open: "check" rejects a server's tables of another version and
                migrates those of a file, "upgrade" migrates both, "look" neither.

        Raises:
            ConfigError: an address we cannot use, a server that does not answer, or
                tables of another version.
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
        """The pool of connections."""
        return self._backend.engine

    @property
    def is_embedded(self) -> bool:
        """Whether all processes that use it are on this machine."""
        return self._backend.is_embedded

    def clock(self) -> float:
        """Return unix seconds: the server's where there is one."""
        with self._translated():
            return self._backend.clock()

    def lease_clock(self) -> float:
        """Return seconds that all processes count alike, and that nobody sets."""
        with self._translated():
            return self._backend.lease_clock()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a connection that sees one state of the database throughout."""
        with self._translated(), self._begun(self.engine) as connection:
            yield connection

    @contextmanager
    def write(self, *, ends: bool = False) -> Iterator[Connection]:
        """Open a transaction that commits at the end, or changes nothing.

        Args:
            ends: It ends a run or frees space, and may use the disk reserve.

        Raises:
            StorageFullError: the disk is full.
            StorageBusyError: another process kept the database for too long.
            StorageUnreachableError: there is no connection, and nothing was changed.
        """
        if not ends:
            self._backend.demand_reserve()
        try:
            with self._translated(), self._begun(self._writer) as connection:
                yield connection
                self._commit(connection)
        except StorageFullError:
            self._backend.release_reserve()
            raise

    @property
    def size(self) -> int:
        """Bytes that the database takes on the disk."""
        with self._translated():
            return self._backend.size

    def shrink(self, pages: int) -> int:
        """Give some free pages back to the disk; return how many."""
        with self.write(ends=True) as connection:
            return self._backend.shrink(connection, pages)

    def compact(self) -> None:
        """Give all free pages back."""
        with self._translated(), self._writer.connect() as connection:
            self._backend.compact(connection)

    def wake(self, poll_s: float) -> Wake:
        """Return what waits for events, where need be by looking every few seconds."""
        return self._backend.wake(schema.EVENTS_CHANNEL, poll_s)

    def close(self) -> None:
        """Close every connection that is not in use."""
        self.engine.dispose()

    def revision(self) -> str | None:
        """Return the version of the tables; None if there are none."""
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
        """Return a connection whose transaction has begun."""
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
                    raise  # the pool has waited, and a request is to be answered soon
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
            return -math.inf  # until its operator does something
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
    # Here: an installation with a file needs no driver.
    from dpsgd_explorer.runs.database.postgresql import Postgresql

    return Postgresql(url, patience_s=patience_s, answer_s=answer_s)

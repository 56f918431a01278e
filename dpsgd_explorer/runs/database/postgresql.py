"""PostgreSQL: the processes of any number of machines.

Transactions that write go one at a time, as SQLite's do: each takes one advisory lock
first.  What a transaction has read is then still so when it writes, and the ids of
events become visible in their order, which every reader of the log relies on.

A machine that vanishes within a transaction does not keep the lock: the server ends a
session that is idle within one.

A server that hangs, or whose network is cut, is given up after some seconds: a request
is answered within five, connecting and waiting for a connection included.
"""

from __future__ import annotations

import logging
import math
import time
from typing import Any

import psycopg
from psycopg.sql import SQL, Identifier
from psycopg.types.string import StrDumperUnknown
from sqlalchemy import Connection, create_engine, event, text
from sqlalchemy.engine import Engine
from sqlalchemy.exc import DBAPIError

from dpsgd_explorer.errors import (
    ExplorerError,
    StorageFullError,
    StorageReadOnlyError,
    StorageUnreachableError,
)
from dpsgd_explorer.runs.database.address import postgresql_url
from dpsgd_explorer.runs.database.answering import AnsweringConnection
from dpsgd_explorer.runs.database.backend import WRITES, Backend, Wake, storage_busy

# Of the advisory lock; other programs that use the same database use other numbers.
WRITERS_LOCK = 0x6470_7367_6421
# The lock is asked for again until a writer's patience is over.
LOCK_SECONDS = 2.0
# libpq rounds less up to two seconds.
CONNECT_SECONDS = 2
# The server ends a statement of its own accord a little before we give the server up.
STATEMENT_SHARE = 0.8
# Shorter than a lease, so that nobody loses one while a vanished writer is waited for.
IDLE_SECONDS = 10
POLL_SECONDS = 0.2
# A listener that was told of nothing looks all the same.
SAFETY_SECONDS = 2.0
# An outage is logged again after so long, however many ask meanwhile.
WARNING_SECONDS = 10.0
# Events that come this soon after one are read together with it.
GATHER_SECONDS = 0.03
CONNECTIONS = {"pool_size": 4, "max_overflow": 12, "pool_timeout": 1.5}
KEEPALIVES: dict[str, Any] = {
    "keepalives_idle": IDLE_SECONDS,
    "keepalives_interval": 5,
    "keepalives_count": 2,
    "tcp_user_timeout": 1000 * IDLE_SECONDS,
}
# The first statement of a transaction: it waits for the lock, then reads the clock.
WRITE = text(
    "SELECT extract(epoch FROM clock_timestamp())::float8,"
    " pg_current_xact_id()::text FROM pg_advisory_xact_lock(:lock)"
)
NOW = text("SELECT extract(epoch FROM clock_timestamp())::float8")
STATUS = text("SELECT pg_xact_status(CAST(:id AS xid8))")
TRANSACTION = "transaction_id"
DISK_FULL, READ_ONLY, FUTURE = "53100", "25006", "22023"
# Locks that another transaction keeps, connections that others use, and statements that
# took too long.
BUSY = {"55P03", "40001", "40P01", "53200", "53300", "57014"}
# Sessions that the server ended: class 08, 57P01 to 57P05, 25P03.
ENDED = ("08", "57P0", "25P03")
logger = logging.getLogger(__name__)


class Listener(Wake):
    """Waits for the server's word (LISTEN), in a connection of its own."""

    def __init__(self, url: str, channel: str) -> None:
        """Do nothing yet."""
        address = postgresql_url(url).set(drivername="postgresql")
        self._address = address.render_as_string(hide_password=False)
        self._listen = SQL("LISTEN {}").format(Identifier(channel))
        self._connection: psycopg.Connection | None = None

    def wait(self) -> None:
        try:
            if self._connection is None:
                self._connect()  # what was stored before this was told to nobody
                return
            told = self._connection.notifies(timeout=SAFETY_SECONDS, stop_after=1)
            if list(told):
                time.sleep(GATHER_SECONDS)
                list(self._connection.notifies(timeout=0))
        except psycopg.Error as error:
            logger.warning(
                "no notification of events, reading the log instead: %s",
                one_line(error),
            )
            self.close()
            time.sleep(SAFETY_SECONDS)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connect(self) -> None:
        self._connection = AnsweringConnection.limited(
            SAFETY_SECONDS + CONNECT_SECONDS,
            self._address,
            autocommit=True,
            connect_timeout=CONNECT_SECONDS,
            application_name="dpsgd-explorer feed",
            client_encoding="utf8",
            **KEEPALIVES,
        )
        self._connection.execute(self._listen)


class Postgresql(Backend):
    """The database of an address, whose tables ``database upgrade`` makes."""

    is_embedded = False

    def __init__(self, url: str, *, patience_s: float, answer_s: float | None) -> None:
        """Open the pool; nothing is connected yet.

        Args:
            url: SQLAlchemy's form of address.
            patience_s: How long a write waits while another process writes.
            answer_s: How long a statement waits for the server; None: for ever.
        """
        self._url = url
        self.engine = _engine(url, min(patience_s, LOCK_SECONDS), answer_s)
        self._ahead = math.nan  # seconds of the server's clock before our monotonic
        self._warned_at = -math.inf
        event.listen(self.engine, "begin", self.begin)

    def begin(self, connection: Connection) -> None:
        if not connection.get_execution_options().get(WRITES):
            connection.exec_driver_sql(
                "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
            )
            return
        connection.exec_driver_sql("BEGIN ISOLATION LEVEL READ COMMITTED")
        now, transaction = connection.execute(WRITE, {"lock": WRITERS_LOCK}).one()
        self._ahead = now - time.monotonic()
        connection.info[TRANSACTION] = transaction

    def translation(self, error: DBAPIError) -> ExplorerError | None:
        state: str | None = getattr(error.orig, "sqlstate", None)
        if state == DISK_FULL:
            return StorageFullError(
                "the database server's disk is full: stored runs can be read, but "
                "nothing new can be stored until its operator frees space."
            )
        if state == READ_ONLY:
            return StorageReadOnlyError(
                "the database is read-only now: stored runs can be read, but nothing "
                "new can be stored until its operator makes it writable again."
            )
        if state in BUSY:
            return storage_busy()
        if error.connection_invalidated or _is_gone(error, state):
            self._warn_of(error)
            return StorageUnreachableError(
                "the database cannot be reached now. No stored run is lost. Try again "
                "soon."
            )
        return None

    def _warn_of(self, error: DBAPIError) -> None:
        now = time.monotonic()
        if now - self._warned_at >= WARNING_SECONDS:
            self._warned_at = now
            logger.warning("the database does not answer: %s", one_line(error.orig))

    def clock(self) -> float:
        """Return the server's clock, as of the last write carried on by our own."""
        if math.isnan(self._ahead):
            with self.engine.connect() as connection:
                self._ahead = (connection.scalar(NOW) or 0.0) - time.monotonic()
        return time.monotonic() + self._ahead

    def lease_clock(self) -> float:
        return self.clock()

    def demand_reserve(self) -> None:
        """Do nothing: the disk is the server's."""

    def release_reserve(self) -> None:
        """Do nothing: the disk is the server's."""

    def transaction_id(self, connection: Connection) -> Any:
        return connection.info.get(TRANSACTION)

    def was_committed(self, transaction: Any, patience_s: float) -> bool:
        """Ask the server, once it answers again; StorageUnreachableError: it does not.

        A commit that was not answered may have been carried out or not.
        """
        end = time.monotonic() + patience_s
        while True:
            try:
                with self.engine.connect() as connection:
                    status = connection.scalar(STATUS, {"id": transaction})
            except DBAPIError as error:
                if getattr(error.orig, "sqlstate", None) == FUTURE:
                    return False  # lost in a crash, and its number with it
                ours = self.translation(error)
                if ours is None or time.monotonic() >= end:
                    raise ours or error from error
            else:
                if status != "in progress" or time.monotonic() >= end:
                    return bool(status == "committed")
            time.sleep(POLL_SECONDS)

    def wake(self, channel: str, _poll_s: float) -> Wake:
        return Listener(self._url, channel)

    @property
    def size(self) -> int:
        with self.engine.connect() as connection:
            query = text("SELECT pg_database_size(current_database())")
            return connection.scalar(query) or 0

    def shrink(self, _connection: Connection, _pages: int) -> int:
        return 0  # the server's autovacuum does this

    def compact(self, connection: Connection) -> None:
        # It takes minutes on a large database, and says nothing meanwhile.
        driver: Any = connection.connection.driver_connection
        driver.answer_s, usual = None, driver.answer_s
        driver.execute("SET statement_timeout = 0")
        driver.execute("VACUUM")
        driver.execute("RESET statement_timeout")
        driver.answer_s = usual


class TextWithoutNull(StrDumperUnknown):
    """Sends text; a null character, which no stored text has, as one that is none."""

    def dump(self, obj: str) -> Any:
        return super().dump(obj.replace("\0", "\ufffd"))


def _engine(url: str, lock_s: float, answer_s: float | None) -> Engine:
    options = {
        "lock_timeout": max(1, round(1000 * lock_s)),
        "idle_in_transaction_session_timeout": 1000 * IDLE_SECONDS,
        "statement_timeout": round(1000 * STATEMENT_SHARE * (answer_s or 0)),
    }
    engine = create_engine(
        postgresql_url(url),
        isolation_level="AUTOCOMMIT",  # we begin transactions ourselves
        connect_args={
            "connect_timeout": CONNECT_SECONDS,
            "application_name": "dpsgd-explorer",
            "client_encoding": "utf8",  # also of a database that has none
            "options": " ".join(f"-c {name}={v}" for name, v in options.items()),
            **KEEPALIVES,
        },
        **CONNECTIONS,
    )

    @event.listens_for(engine, "do_connect")
    def connect(
        _dialect: object, _record: object, args: Any, options: Any
    ) -> AnsweringConnection:
        return AnsweringConnection.limited(answer_s, *args, **options)

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: object) -> None:
        connection.adapters.register_dumper(str, TextWithoutNull)

    return engine


def _is_gone(error: DBAPIError, state: str | None) -> bool:
    """Return True if there is no connection; a refused one has no state."""
    if state is None:
        return isinstance(error.orig, psycopg.OperationalError | psycopg.InterfaceError)
    return state.startswith(ENDED)


def one_line(error: BaseException | None) -> str:
    """Return the words of the server in one line."""
    return " ".join(str(error).split())

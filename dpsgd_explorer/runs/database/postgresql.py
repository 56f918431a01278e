"""PostgreSQL, for processes on any number of machines.

Write transactions are serialized, as in SQLite: each first takes one advisory lock.
Values that a transaction has read are therefore still current when it writes, and the
ids of events become visible in order, on which every reader of the log relies.

If a machine disappears within a transaction, the server ends its idle session and so
releases the lock.

If the server hangs or the network is cut, statements fail after some seconds: a request
is answered within five seconds, including the time to connect.
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

# Number of the advisory lock; other programs in the database use other numbers.
WRITERS_LOCK = 0x6470_7367_6421
# Timeout of one attempt to take the lock; a write retries until its patience ends.
LOCK_SECONDS = 2.0
# libpq rounds smaller values up to two seconds.
CONNECT_SECONDS = 2
# Share of the client's time limit after which the server itself aborts a statement.
STATEMENT_SHARE = 0.8
# Shorter than a lease, so that no lease expires while writers wait for the lock of a
# machine that has disappeared.
IDLE_SECONDS = 10
POLL_SECONDS = 0.2
# A listener without notifications reads the log after this time all the same.
SAFETY_SECONDS = 2.0
# Minimum time between two log lines about an outage.
WARNING_SECONDS = 10.0
# Events within this time after a notification are read together.
GATHER_SECONDS = 0.03
CONNECTIONS = {"pool_size": 4, "max_overflow": 12, "pool_timeout": 1.5}
KEEPALIVES: dict[str, Any] = {
    "keepalives_idle": IDLE_SECONDS,
    "keepalives_interval": 5,
    "keepalives_count": 2,
    "tcp_user_timeout": 1000 * IDLE_SECONDS,
}
# First statement of a write transaction: it waits for the lock, then reads the clock.
WRITE = text(
    "SELECT extract(epoch FROM clock_timestamp())::float8,"
    " pg_current_xact_id()::text FROM pg_advisory_xact_lock(:lock)"
)
NOW = text("SELECT extract(epoch FROM clock_timestamp())::float8")
STATUS = text("SELECT pg_xact_status(CAST(:id AS xid8))")
TRANSACTION = "transaction_id"
DISK_FULL, READ_ONLY, FUTURE = "53100", "25006", "22023"
# Error codes of locks held by others, exhausted connections and timed-out statements.
BUSY = {"55P03", "40001", "40P01", "53200", "53300", "57014"}
# Error codes of sessions that the server ended: class 08, 57P01 to 57P05, 25P03.
ENDED = ("08", "57P0", "25P03")
logger = logging.getLogger(__name__)


class Listener(Wake):
    """Waits for notifications of PostgreSQL (LISTEN), in a separate connection."""

    def __init__(self, url: str, channel: str) -> None:
        address = postgresql_url(url).set(drivername="postgresql")
        self._address = address.render_as_string(hide_password=False)
        self._listen = SQL("LISTEN {}").format(Identifier(channel))
        self._connection: psycopg.Connection | None = None

    def wait(self) -> None:
        try:
            if self._connection is None:
                self._connect()  # earlier events sent no notification: read them now
                return
            news = self._connection.notifies(timeout=SAFETY_SECONDS, stop_after=1)
            if list(news):
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
    """A PostgreSQL database; ``database upgrade`` creates its tables."""

    is_embedded = False

    def __init__(self, url: str, *, patience_s: float, answer_s: float | None) -> None:
        """Creates the pool without connecting.

        Args:
            url: SQLAlchemy URL.
            patience_s: Seconds that a write waits while another process writes.
            answer_s: Time limit of a statement in seconds; None sets no limit.
        """
        self._url = url
        self.engine = _engine(url, min(patience_s, LOCK_SECONDS), answer_s)
        self._ahead = math.nan  # server's clock minus monotonic clock, in seconds
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
        """Returns the server's time at the last write, plus the time since then."""
        if math.isnan(self._ahead):
            with self.engine.connect() as connection:
                self._ahead = (connection.scalar(NOW) or 0.0) - time.monotonic()
        return time.monotonic() + self._ahead

    def lease_clock(self) -> float:
        return self.clock()

    def demand_reserve(self) -> None:
        """Does nothing: the disk belongs to the server."""

    def release_reserve(self) -> None:
        """Does nothing: the disk belongs to the server."""

    def transaction_id(self, connection: Connection) -> Any:
        return connection.info.get(TRANSACTION)

    def was_committed(self, transaction: Any, patience_s: float) -> bool:
        """Returns True if the server has committed the transaction.

        If the connection breaks during a commit, the client does not know its outcome.

        Raises:
            StorageUnreachableError: The server does not answer for ``patience_s``.
        """
        end = time.monotonic() + patience_s
        while True:
            try:
                with self.engine.connect() as connection:
                    status = connection.scalar(STATUS, {"id": transaction})
            except DBAPIError as error:
                if getattr(error.orig, "sqlstate", None) == FUTURE:
                    return False  # a crash lost the transaction and its number
                ours = self.translation(error)
                if ours is None or time.monotonic() >= end:
                    raise ours or error from error
            else:
                if status != "in progress" or time.monotonic() >= end:
                    return bool(status == "committed")
            time.sleep(POLL_SECONDS)

    def wake(self, channel: str) -> Wake:
        return Listener(self._url, channel)

    @property
    def size(self) -> int:
        with self.engine.connect() as connection:
            query = text("SELECT pg_database_size(current_database())")
            return connection.scalar(query) or 0

    def shrink(self, _connection: Connection, _pages: int) -> int:
        return 0  # the server's autovacuum does this

    def compact(self, connection: Connection) -> None:
        # VACUUM takes minutes on a large database, without an answer in the meantime.
        driver: Any = connection.connection.driver_connection
        driver.answer_s, answer_s = None, driver.answer_s
        driver.execute("SET statement_timeout = 0")
        driver.execute("VACUUM")
        driver.execute("RESET statement_timeout")
        driver.answer_s = answer_s


class TextWithoutNull(StrDumperUnknown):
    """Encodes text, replacing NUL, which PostgreSQL rejects, with U+FFFD."""

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
            "client_encoding": "utf8",  # also if the database has no encoding
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
    """Returns True if the connection is lost; a refused connection has no state."""
    if state is None:
        return isinstance(error.orig, psycopg.OperationalError | psycopg.InterfaceError)
    return state.startswith(ENDED)


def one_line(error: BaseException | None) -> str:
    """Returns the message of an error in one line."""
    return " ".join(str(error).split())

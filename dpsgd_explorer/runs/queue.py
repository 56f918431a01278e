"""Queue of the doorbell's messages: in a file, in PostgreSQL or in Redis.

This module imports huey, which imports the client libraries of both servers.
"""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from huey import PostgresHuey, RedisHuey
from huey.api import Huey
from huey.registry import Message
from huey.serializer import Serializer
from huey.storage import SqliteStorage

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.runs.database.address import (
    REDIS,
    kind_of,
    postgresql_url,
    shown,
)
from dpsgd_explorer.runs.files import named_pipes

NAME = "dpsgd-explorer"
CONNECT_SECONDS = 2
# Seconds for which a reader waits for a message, as with huey's other storages.
WAIT_SECONDS = 1.0
# Longer than WAIT_SECONDS, so that an empty queue does not count as an error.
ANSWER_SECONDS = 2.5


class JsonSerializer(Serializer):  # type: ignore[misc]  # huey has no types
    """Stores messages as JSON; huey's default is pickle, which can execute code."""

    def _serialize(self, data: Message) -> bytes:
        return json.dumps(list(data)).encode()

    def _deserialize(self, data: bytes) -> Message:
        return Message(*json.loads(data))


class FileStorage(SqliteStorage):  # type: ignore[misc]  # huey has no types
    """Queue in a file whose reader waits for messages; huey's own reader polls."""

    blocking = True
    _listener: named_pipes.Listener | None = None

    def _create_connection(self) -> sqlite3.Connection:
        connection: sqlite3.Connection = super()._create_connection()
        # As for runs: a message need not reach the disk before the launch is answered.
        connection.execute("PRAGMA synchronous = NORMAL")
        return connection

    def enqueue(self, data: bytes, priority: float | None = None) -> None:
        super().enqueue(data, priority)
        named_pipes.wake(Path(self.filename))

    def dequeue(self) -> bytes | None:
        """Returns the next message, or None after WAIT_SECONDS without one."""
        if self._listener is None:
            self._listener = named_pipes.Listener(Path(self.filename))
        data: bytes | None = super().dequeue()
        if data is None:
            self._listener.wait(WAIT_SECONDS)
            data = super().dequeue()
        return data

    def close(self) -> bool:
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        return bool(super().close())


@dataclass(frozen=True)
class Queue:
    """A queue, and the errors it raises if it accepts no message."""

    huey: Huey
    faults: tuple[type[Exception], ...]


def queue_at(url: str) -> Queue:
    """Opens the queue on a server.

    Raises:
        ConfigError: The server does not answer.
    """
    return _redis(url) if kind_of(url) == REDIS else _postgresql(url)


def queue_in(file: Path) -> Huey:
    """Opens the queue in a file."""
    return Huey(NAME, storage_class=FileStorage, filename=str(file), **_plain())


def _redis(url: str) -> Queue:
    from redis import ConnectionError as LostError
    from redis import ConnectionPool, RedisError
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    try:
        pool = ConnectionPool.from_url(
            url,
            socket_connect_timeout=CONNECT_SECONDS,
            socket_timeout=ANSWER_SECONDS,
            # A connection lost in a restart of the server is opened again once.  A
            # timeout is not retried.
            retry=Retry(NoBackoff(), 1, supported_errors=(LostError,)),
        )
        huey = RedisHuey(NAME, connection_pool=pool, **_plain())
        huey.storage.queue_size()
    except (RedisError, ValueError) as error:
        raise _unreachable(url, error) from None
    return Queue(huey, (RedisError,))


def _postgresql(url: str) -> Queue:
    import psycopg

    from dpsgd_explorer.runs.database.answering import AnsweringConnection
    from dpsgd_explorer.runs.database.postgresql import KEEPALIVES

    address = postgresql_url(url).set(drivername="postgresql")
    dsn = address.render_as_string(hide_password=False)
    options = {
        "connect_timeout": CONNECT_SECONDS,
        "application_name": NAME,
        "client_encoding": "utf8",
        **KEEPALIVES,
    }

    def connect() -> AnsweringConnection:
        return AnsweringConnection.limited(ANSWER_SECONDS, dsn, **options)

    try:
        huey = PostgresHuey(NAME, connection=connect, **_plain())
    except (psycopg.errors.UniqueViolation, psycopg.errors.DuplicateTable):
        # Another process has created the tables in the meantime.
        huey = PostgresHuey(NAME, connection=connect, **_plain())
    except psycopg.errors.ReadOnlySqlTransaction:
        raise ConfigError(
            "DPSGD_QUEUE_URL",
            f"DPSGD_QUEUE_URL: the queue {shown(url)} is read-only now. Its operator "
            "must make it writable again.",
        ) from None
    except psycopg.Error as error:
        raise _unreachable(url, error) from None
    return Queue(huey, (psycopg.Error,))


def _plain() -> dict[str, object]:
    """Returns the options that all queues share."""
    return {"results": False, "serializer": JsonSerializer()}


def _unreachable(url: str, error: Exception) -> ConfigError:
    return ConfigError(
        "DPSGD_QUEUE_URL",
        f"DPSGD_QUEUE_URL: the queue {shown(url)} cannot be reached, tried for "
        f"{CONNECT_SECONDS} seconds: {' '.join(str(error).split())}",
    )

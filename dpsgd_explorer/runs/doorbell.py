"""The doorbell: wakes a worker for a queued run; the message holds only its id.

A message that is lost or delivered twice does no harm.  The runs table is the truth:
a worker that is woken claims the next run of the fair queue, and the consumer rings
again for a run that waits too long.
"""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass

from huey import PostgresHuey, RedisHuey, SqliteHuey
from huey.api import Huey
from huey.registry import Message
from huey.serializer import Serializer

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.runs.database.address import (
    POSTGRESQL,
    REDIS,
    kind_of,
    postgresql_url,
    shown,
)
from dpsgd_explorer.runs.files.private_file import private_file
from dpsgd_explorer.settings import Settings

NAME = "dpsgd-explorer"
CONNECT_SECONDS = 5
# Longer than huey waits for a message, so that silence is no fault.
ANSWER_SECONDS = 10
logger = logging.getLogger(__name__)


class JsonSerializer(Serializer):  # type: ignore[misc]  # huey has no types
    """Keeps queue messages as JSON; huey's own way is pickle, which runs code."""

    def _serialize(self, data: Message) -> bytes:
        return json.dumps(list(data)).encode()

    def _deserialize(self, data: bytes) -> Message:
        return Message(*json.loads(data))


@dataclass(frozen=True)
class Queue:
    """A queue, and the errors it raises when it takes no message."""

    huey: Huey
    faults: tuple[type[Exception], ...]


class Doorbell:
    """Rings from any process; a worker answers through ``huey``."""

    def __init__(
        self, settings: Settings, answer: Callable[[str], None] | None = None
    ) -> None:
        """Open the queue.

        Args:
            settings: Says where the queue is.
            answer: Called with the run id in a worker's thread; None: ring only.

        Raises:
            ConfigError: there is no queue of that kind, or it does not answer.
        """
        queue = _queue(settings.queue_url)
        self.huey, self._faults = queue.huey, queue.faults

        def ring(run_id: str) -> None:
            if answer is not None:
                answer(run_id)

        self._ring = self.huey.task(name="ring")(ring)

    def ring(self, run_id: str) -> bool:
        """Wake a worker; False if the queue takes no message.

        The workers look themselves then.
        """
        try:
            self._ring(run_id)
        except self._faults as error:
            logger.warning("the doorbell for run %s was not heard: %s", run_id, error)
            return False
        return True


def _queue(url: str) -> Queue:
    """Open the queue at an address.

    Raises:
        ConfigError: it is no address of a queue, or nothing answers there.
    """
    kind = kind_of(url)
    if kind not in (POSTGRESQL, REDIS):
        file = private_file("DPSGD_QUEUE_URL", url, "queue.sqlite3")
        huey = SqliteHuey(NAME, filename=str(file), **_plain())
        return Queue(huey, (sqlite3.OperationalError,))
    opened = _redis if kind == REDIS else _postgresql
    return opened(url)


def _redis(url: str) -> Queue:
    from redis import ConnectionPool, RedisError
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    try:
        pool = ConnectionPool.from_url(
            url,
            socket_connect_timeout=CONNECT_SECONDS,
            socket_timeout=ANSWER_SECONDS,
            retry=Retry(NoBackoff(), 1),
        )
        huey = RedisHuey(NAME, connection_pool=pool, **_plain())
        huey.storage.queue_size()
    except (RedisError, ValueError) as error:
        raise _unreachable(url, error) from None
    return Queue(huey, (RedisError,))


def _postgresql(url: str) -> Queue:
    import psycopg

    address = postgresql_url(url).set(drivername="postgresql")
    dsn = address.render_as_string(hide_password=False)
    options = {"connect_timeout": CONNECT_SECONDS, "application_name": NAME}
    try:
        huey = PostgresHuey(NAME, dsn=dsn, **options, **_plain())
    except (psycopg.errors.UniqueViolation, psycopg.errors.DuplicateTable):
        # Another process has just made its tables.
        huey = PostgresHuey(NAME, dsn=dsn, **options, **_plain())
    except psycopg.Error as error:
        raise _unreachable(url, error) from None
    return Queue(huey, (psycopg.Error,))


def _plain() -> dict[str, object]:
    """Return what all queues have in common."""
    return {"results": False, "serializer": JsonSerializer()}


def _unreachable(url: str, error: Exception) -> ConfigError:
    return ConfigError(
        "DPSGD_QUEUE_URL",
        f"DPSGD_QUEUE_URL: the queue {shown(url)} cannot be reached, tried for "
        f"{CONNECT_SECONDS} seconds: {' '.join(str(error).split())}",
    )

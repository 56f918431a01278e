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

from huey import SqliteHuey
from huey.registry import Message
from huey.serializer import Serializer

from dpsgd_explorer.runs.files.private_file import private_file
from dpsgd_explorer.settings import Settings

logger = logging.getLogger(__name__)


class JsonSerializer(Serializer):  # type: ignore[misc]  # huey has no types
    """Keeps queue messages as JSON; huey's own way is pickle, which runs code."""

    def _serialize(self, data: Message) -> bytes:
        return json.dumps(list(data)).encode()

    def _deserialize(self, data: bytes) -> Message:
        return Message(*json.loads(data))


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
            ConfigError: there is no queue of that kind.
        """
        self.huey = _queue(settings.queue_url)

        def ring(run_id: str) -> None:
            if answer is not None:
                answer(run_id)

        self._ring = self.huey.task(name="ring")(ring)

    def ring(self, run_id: str) -> None:
        """Wake a worker; if the queue takes no message, the workers look themselves."""
        try:
            self._ring(run_id)
        except sqlite3.OperationalError as error:
            logger.warning("the doorbell for run %s was not heard: %s", run_id, error)


def _queue(url: str) -> SqliteHuey:
    """Open the queue at an address.

    Raises:
        ConfigError: the address is not that of a SQLite file.
    """
    file = private_file("DPSGD_QUEUE_URL", url, "queue.sqlite3")
    return SqliteHuey(
        "dpsgd-explorer",
        filename=str(file),
        results=False,
        serializer=JsonSerializer(),
    )

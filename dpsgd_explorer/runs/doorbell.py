"""The doorbell: wakes a worker for a queued run; the message holds only its id.

A message that is lost or delivered twice does no harm.  The runs table is the only
source of truth: an awakened worker claims the next run of the fair queue, and the
consumer rings again for a run that waits too long.
"""

from __future__ import annotations

import logging
import math
import sqlite3
import time
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from dpsgd_explorer.runs.database.address import POSTGRESQL, REDIS, kind_of
from dpsgd_explorer.runs.files.private_file import private_file
from dpsgd_explorer.settings import Settings

if TYPE_CHECKING:
    from huey.api import Huey

# Pause after a message that the queue did not accept.  A group of runs sends a message
# for each run, and the launch request would wait for the timeout of every one.
DEAF_SECONDS = 2.0
logger = logging.getLogger(__name__)


class Doorbell:
    """Rings from any process; a worker answers through ``huey``."""

    def __init__(
        self, settings: Settings, answer: Callable[[str], None] | None = None
    ) -> None:
        """Opens the queue; a queue in a file is opened at its first use.

        Args:
            settings: Settings with the address of the queue.
            answer: Function called with the run id in a worker's thread; None if this
                process only rings.

        Raises:
            ConfigError: The kind of queue is unknown, or the queue does not answer.
        """
        url = settings.queue_url
        self._answer = answer
        self._deaf_until = -math.inf
        self._faults: tuple[type[Exception], ...] = (sqlite3.OperationalError,)
        if kind_of(url) in (POSTGRESQL, REDIS):
            from dpsgd_explorer.runs.queue import queue_at

            queue = queue_at(url)
            self.huey, self._faults = self._with_task(queue.huey), queue.faults
        else:
            self._file = private_file("DPSGD_QUEUE_URL", url, "queue.sqlite3")

    @cached_property
    def huey(self) -> Huey:
        """Queue in a file."""
        from dpsgd_explorer.runs.queue import queue_in

        return self._with_task(queue_in(self._file))

    def _with_task(self, huey: Huey) -> Huey:
        """Returns the queue with the task that a message starts."""

        def ring(run_id: str) -> None:
            if self._answer is not None:
                self._answer(run_id)

        self._ring = huey.task(name="ring")(ring)
        return huey

    def ring(self, run_id: str) -> bool:
        """Wakes a worker; returns False if the queue accepts no message.

        Without a message, workers find the run when they next poll the database.
        """
        if time.monotonic() < self._deaf_until:
            return False
        try:
            self.huey  # noqa: B018  # opens the queue and registers its task
            self._ring(run_id)
        except self._faults as error:
            logger.warning("workers could not be notified of run %s: %s", run_id, error)
            self._deaf_until = time.monotonic() + DEAF_SECONDS
            return False
        return True

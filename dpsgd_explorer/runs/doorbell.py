"""The doorbell: wakes a worker for a queued run; the message holds only its id.

A message that is lost or delivered twice does no harm.  The runs table is the truth:
a worker that is woken claims the next run of the fair queue, and the consumer rings
again for a run that waits too long.
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

# After a message that was not taken, the next ones are not waited for: a group of runs
# rings for each of them.
DEAF_SECONDS = 2.0
logger = logging.getLogger(__name__)


class Doorbell:
    """Rings from any process; a worker answers through ``huey``."""

    def __init__(
        self, settings: Settings, answer: Callable[[str], None] | None = None
    ) -> None:
        """Open the queue; one in a file when it is used first.

        Args:
            settings: Says where the queue is.
            answer: Called with the run id in a worker's thread; None: ring only.

        Raises:
            ConfigError: there is no queue of that kind, or it does not answer.
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
        """The queue."""
        from dpsgd_explorer.runs.queue import queue_in

        return self._with_task(queue_in(self._file))

    def _with_task(self, huey: Huey) -> Huey:
        """Return the queue, which knows what to do when it rings."""

        def ring(run_id: str) -> None:
            if self._answer is not None:
                self._answer(run_id)

        self._ring = huey.task(name="ring")(ring)
        return huey

    def ring(self, run_id: str) -> bool:
        """Wake a worker; return False if the queue takes no message.

        The workers look themselves then.
        """
        if time.monotonic() < self._deaf_until:
            return False
        try:
            self.huey  # noqa: B018  # opened, and its task known
            self._ring(run_id)
        except self._faults as error:
            logger.warning("workers could not be notified of run %s: %s", run_id, error)
            self._deaf_until = time.monotonic() + DEAF_SECONDS
            return False
        return True

"""Heartbeats of workers in the database, which every process of a site can read.

The supervisor of a worker reads a file instead (``worker.heartbeat``), which also works
during an outage of the database.
"""

from __future__ import annotations

import logging
import os
import platform
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import Connection, delete, select, update

from dpsgd_explorer import __version__
from dpsgd_explorer.errors import ExplorerError
from dpsgd_explorer.runs.files.one_machine import machine_id
from dpsgd_explorer.runs.store.database import Database
from dpsgd_explorer.runs.store.site.tables import workers

HEARTBEAT_SECONDS = 5.0  # between two heartbeats
#: Age of the last heartbeat after which a worker counts as lost.
LOST_SECONDS = 30.0
#: Age of the last heartbeat after which a worker's row is deleted.
FORGOTTEN_SECONDS = 24 * 3600.0
logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class LiveWorker:
    """A worker process with a recent heartbeat.

    Attributes:
        host: Name of the machine or container.
        version: Version of the program.
        places: Maximum number of simultaneous runs.
        busy: Number of current runs.
        started_at: Unix seconds.
        seen_s: Seconds since the last heartbeat.
    """

    host: str
    version: str
    places: int
    busy: int
    started_at: float
    seen_s: float

    @property
    def is_lost(self) -> bool:
        """True if the heartbeat is overdue."""
        return self.seen_s > LOST_SECONDS


class WorkerSign:
    """Heartbeat of this worker, renewed every few seconds.

    Args:
        database: Database with the heartbeats.
        places: Maximum number of simultaneous runs of this worker.
        clock: Returns unix seconds.
        pause_clock: Returns seconds for the schedule of heartbeats.
    """

    def __init__(
        self,
        database: Database,
        places: int,
        *,
        clock: Callable[[], float],
        pause_clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database, self._clock = database, clock
        self._pause_clock = pause_clock
        self._due = pause_clock()
        process = f"{machine_id()} {os.getpid()} {secrets.token_hex(4)}"
        self._name = f"{platform.node()} {process}"[-120:]
        self._values = {
            "host": platform.node()[:80],
            "version": __version__,
            "places": places,
            "started_at": clock(),
        }

    def tend(self, busy: int) -> None:
        """Stores a heartbeat if one is due; called periodically.

        Args:
            busy: Number of current runs of this worker.
        """
        if self._pause_clock() < self._due:
            return
        self._due = self._pause_clock() + HEARTBEAT_SECONDS
        try:
            with self._database.write(ends=True) as connection:
                self._write(connection, busy)
        except ExplorerError as error:
            logger.warning(
                "the heartbeat of this worker could not be stored: %s", error
            )

    def end(self) -> None:
        """Deletes the heartbeat of this worker."""
        try:
            with self._database.write(ends=True) as connection:
                connection.execute(delete(workers).where(workers.c.name == self._name))
        except ExplorerError as error:
            logger.warning(
                "the heartbeat of this worker could not be removed: %s", error
            )

    def _write(self, connection: Connection, busy: int) -> None:
        now = self._clock()
        values = {**self._values, "busy": busy, "seen_at": now}
        renewed = update(workers).where(workers.c.name == self._name).values(values)
        if not connection.execute(renewed).rowcount:
            connection.execute(workers.insert().values(name=self._name, **values))
        old = workers.c.seen_at < now - FORGOTTEN_SECONDS
        connection.execute(delete(workers).where(old))


def live_workers(connection: Connection, now: float) -> list[LiveWorker]:
    """Returns the workers seen within a day, most recent first."""
    query = select(workers).order_by(workers.c.seen_at.desc())
    return [
        LiveWorker(
            host=row.host,
            version=row.version,
            places=row.places,
            busy=row.busy,
            started_at=row.started_at,
            seen_s=max(0.0, now - row.seen_at),
        )
        for row in connection.execute(query)
    ]

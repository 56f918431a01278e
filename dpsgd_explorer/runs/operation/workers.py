"""Signs of workers in the database, which every process of a site reads.

The supervisor of a worker looks at its file instead (``worker.heartbeat``): that works
while the database does not.
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

SIGN_SECONDS = 5.0
#: A worker that gave no sign for so long counts as lost.
LOST_SECONDS = 30.0
#: After so long it is forgotten.
FORGOTTEN_SECONDS = 24 * 3600.0
logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class LiveWorker:
    """One process that carries runs out.

    Attributes:
        host: Name of its machine or container.
        places: Runs that it carries out at the same time, at most.
        busy: Runs that it carries out now.
        started_at: Unix seconds.
        seen_s: Seconds since its last sign.
    """

    host: str
    version: str
    places: int
    busy: int
    started_at: float
    seen_s: float

    @property
    def is_lost(self) -> bool:
        """Whether its sign is overdue."""
        return self.seen_s > LOST_SECONDS


class WorkerSign:
    """The sign of this worker, renewed every few seconds."""

    def __init__(
        self,
        database: Database,
        places: int,
        *,
        clock: Callable[[], float],
        pause_clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Do nothing yet.

        Args:
            database: Where signs are.
            places: Runs that this worker carries out at the same time.
            clock: Gives unix seconds.
            pause_clock: Gives seconds, for the next sign only.
        """
        self._database, self._clock = database, clock
        self._pause_clock = pause_clock
        self._due = pause_clock()
        own = f"{machine_id()} {os.getpid()} {secrets.token_hex(4)}"
        self._name = f"{platform.node()} {own}"[-120:]
        self._values = {
            "host": platform.node()[:80],
            "version": __version__,
            "places": places,
            "started_at": clock(),
        }

    def tend(self, busy: int) -> None:
        """Give a sign if one is due; call again and again.

        Args:
            busy: Runs that this worker carries out now.
        """
        if self._pause_clock() < self._due:
            return
        self._due = self._pause_clock() + SIGN_SECONDS
        try:
            with self._database.write(ends=True) as connection:
                self._write(connection, busy)
        except ExplorerError as error:
            logger.warning(
                "the heartbeat of this worker could not be stored: %s", error
            )

    def end(self) -> None:
        """Be no more counted."""
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
        mine = workers.c.name == self._name
        if not connection.execute(update(workers).where(mine).values(values)).rowcount:
            connection.execute(workers.insert().values(name=self._name, **values))
        old = workers.c.seen_at < now - FORGOTTEN_SECONDS
        connection.execute(delete(workers).where(old))


def live_workers(connection: Connection, now: float) -> list[LiveWorker]:
    """Return the workers that were seen within a day, the one seen last first."""
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

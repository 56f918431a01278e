"""What an operator reads of all processes of a site, and orders them to do.

Every process of a site reads the same database, so each reports the same.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, func, select
from sqlalchemy.exc import SQLAlchemyError

from dpsgd_explorer.errors import ExplorerError
from dpsgd_explorer.runs.operation import visitors
from dpsgd_explorer.runs.operation.workers import LiveWorker, live_workers
from dpsgd_explorer.runs.store import deletion
from dpsgd_explorer.runs.store.database import Database
from dpsgd_explorer.runs.store.records import Run, not_found
from dpsgd_explorer.runs.store.schema import MOVES, PAUSED, QUEUED, RUNNING, runs
from dpsgd_explorer.runs.store.site import counters, orders

MOST_SHOWN = 200  # runs in one list
logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The state of a site at one time, from one transaction.

    Attributes:
        runs: Number of runs that are stored, by state.
        oldest_queued_s: Seconds since the oldest queued run was launched; 0: none is.
        queue_paused_at: Unix seconds; None: runs start.
        finished: Runs that ended since the database was made, by kind and final state.
        lease_losses: Runs that lost their worker since then.
        events: Number of the newest event, of which none is used twice.
        workers: Those that were seen lately.
    """

    runs: Mapping[str, int]
    oldest_queued_s: float
    queue_paused_at: float | None
    finished: Mapping[tuple[str, str], int]
    lease_losses: int
    events: int
    workers: list[LiveWorker]

    @property
    def queued(self) -> int:
        """Runs that wait for a worker."""
        return self.runs[QUEUED]


class Fleet:
    """The database of a site, for its operator."""

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        """Stores the arguments.

        Args:
            database: Where the runs are.
            clock: Gives unix seconds.
        """
        self._database, self._clock = database, clock

    def read(self) -> Reading:
        """Return the state of the site now."""
        with self._database.read() as connection:
            oldest = select(func.min(runs.c.created_at)).where(runs.c.state == QUEUED)
            queued_at = connection.scalar(oldest)
            age = 0.0 if queued_at is None else max(0.0, self._clock() - queued_at)
            return Reading(
                runs=_counts(connection),
                oldest_queued_s=age,
                queue_paused_at=orders.queue_paused_at(connection),
                finished=counters.finished(connection),
                lease_losses=counters.lease_losses(connection),
                events=counters.events(connection),
                workers=live_workers(connection, self._clock()),
            )

    def read_if_possible(self) -> Reading | None:
        """Return the state of the site now; None if the database cannot be read."""
        try:
            return self.read()
        except (ExplorerError, SQLAlchemyError) as error:
            logger.warning("the site could not be read: %s", error)
            return None

    def workers(self) -> list[LiveWorker]:
        """Return the workers that were seen lately, the one seen last first."""
        with self._database.read() as connection:
            return live_workers(connection, self._clock())

    def unfinished(self) -> list[Run]:
        """Return runs that train, are paused or wait, in this order, oldest first."""
        with self._database.read() as connection:
            shown: list[Run] = []
            for state in (RUNNING, PAUSED, QUEUED):
                query = (
                    select(runs)
                    .where(runs.c.state == state, runs.c.deleted_at.is_(None))
                    .order_by(runs.c.created_at, runs.c.id)
                    .limit(MOST_SHOWN)
                )
                rows = connection.execute(query).mappings()
                shown += [Run.from_row(row) for row in rows]
            return shown

    def usage(self) -> list[visitors.Usage]:
        """Return the visitors that launched most in 24 hours, the busiest first."""
        with self._database.read() as connection:
            return visitors.usage(connection, self._clock())

    def pause_queue(self) -> None:
        """Let no run start; those that run go on."""
        with self._database.write() as connection:
            orders.pause_queue(connection, self._clock())

    def resume_queue(self) -> None:
        """Let runs start again."""
        with self._database.write() as connection:
            orders.resume_queue(connection)

    def drain(self) -> None:
        """Let no run start; have those that train given back to the queue.

        Workers do so within seconds; ``resume_queue`` ends it.
        """
        with self._database.write() as connection:
            orders.drain(connection, self._clock())

    def queue_is_paused(self) -> bool:
        """Whether no run starts."""
        with self._database.read() as connection:
            return orders.queue_paused_at(connection) is not None

    def end_run(self, run_id: str) -> str:
        """End a queued or paused run now; ask the worker of a training run to end it.

        A run that has ended stays as it is.

        Returns:
            The state of the run, or "its worker ends it".

        Raises:
            RunNotFoundError: there is no such run.
        """
        with self._database.write(ends=True) as connection:
            query = select(runs).where(runs.c.id == run_id)
            run = connection.execute(query).mappings().one_or_none()
            if run is None:
                raise not_found(run_id)
            if not Run.from_row(run).has_ended:
                orders.note_end(connection, run_id, self._clock())
                deletion.stop(connection, run, self._clock())
                run = connection.execute(query).mappings().one()
            ended = Run.from_row(run)
            return ended.state if ended.has_ended else "its worker ends it"


def _counts(connection: Connection) -> dict[str, int]:
    query = select(runs.c.state, func.count().label("number")).group_by(runs.c.state)
    rows = connection.execute(query).all()
    return dict.fromkeys(MOVES, 0) | {row.state: row.number for row in rows}

"""State of a site for its operator, and the operator's orders.

All processes of a site read one database, so each process reports the same state.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.exc import SQLAlchemyError

from dpsgd_explorer.errors import ExplorerError
from dpsgd_explorer.runs.operation import visitors
from dpsgd_explorer.runs.operation.workers import LiveWorker, live_workers
from dpsgd_explorer.runs.store import deletion
from dpsgd_explorer.runs.store.database import Database
from dpsgd_explorer.runs.store.records import Run, count_by_state, not_found
from dpsgd_explorer.runs.store.schema import PAUSED, QUEUED, RUNNING, runs
from dpsgd_explorer.runs.store.site import counters, orders

MAX_LISTED_RUNS = 200  # runs per state in the operator's list
logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """State of a site, read in one transaction.

    Attributes:
        runs: Number of stored runs by state.
        oldest_queued_s: Seconds since the launch of the oldest queued run; 0 if no run
            is queued.
        queue_paused_at: Unix seconds when the queue was paused; None if it is not.
        finished: Number of runs that ended since the database was created, by kind and
            final state.
        lease_losses: Number of lost workers since the database was created.
        events: Id of the newest event; ids are never reused.
        workers: Workers seen within a day.
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
        """Number of queued runs."""
        return self.runs[QUEUED]


class Fleet:
    """Reads the state of a site and stores its operator's orders.

    Args:
        database: Database of the runs.
        clock: Returns unix seconds.
    """

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._database, self._clock = database, clock

    def read(self) -> Reading:
        """Returns the current state of the site."""
        with self._database.read() as connection:
            oldest = select(func.min(runs.c.created_at)).where(runs.c.state == QUEUED)
            queued_at = connection.scalar(oldest)
            age = 0.0 if queued_at is None else max(0.0, self._clock() - queued_at)
            return Reading(
                runs=count_by_state(connection),
                oldest_queued_s=age,
                queue_paused_at=orders.queue_paused_at(connection),
                finished=counters.finished(connection),
                lease_losses=counters.lease_losses(connection),
                events=counters.events(connection),
                workers=live_workers(connection, self._clock()),
            )

    def read_if_possible(self) -> Reading | None:
        """Returns the current state; None if the database cannot be read."""
        try:
            return self.read()
        except (ExplorerError, SQLAlchemyError) as error:
            logger.warning("the site could not be read: %s", error)
            return None

    def workers(self) -> list[LiveWorker]:
        """Returns the workers seen within a day, most recent first."""
        with self._database.read() as connection:
            return live_workers(connection, self._clock())

    def unfinished(self) -> list[Run]:
        """Returns running, paused and queued runs, in this order, oldest first."""
        with self._database.read() as connection:
            shown: list[Run] = []
            for state in (RUNNING, PAUSED, QUEUED):
                query = (
                    select(runs)
                    .where(runs.c.state == state, runs.c.deleted_at.is_(None))
                    .order_by(runs.c.created_at, runs.c.id)
                    .limit(MAX_LISTED_RUNS)
                )
                rows = connection.execute(query).mappings()
                shown += [Run.from_row(row) for row in rows]
            return shown

    def usage(self) -> list[visitors.Usage]:
        """Returns the visitors with the most launches in 24 hours, busiest first."""
        with self._database.read() as connection:
            return visitors.usage(connection, self._clock())

    def pause_queue(self) -> None:
        """Pauses the queue: no run starts, and running runs continue."""
        with self._database.write() as connection:
            orders.pause_queue(connection, self._clock())

    def resume_queue(self) -> None:
        """Resumes the queue, also after ``drain``."""
        with self._database.write() as connection:
            orders.resume_queue(connection)

    def drain(self) -> None:
        """Pauses the queue and returns running runs to it, within seconds.

        ``resume_queue`` undoes the order.
        """
        with self._database.write() as connection:
            orders.drain(connection, self._clock())

    def end_run(self, run_id: str) -> Run:
        """Ends a queued or paused run now; asks the worker of a training run to end it.

        A run that has ended stays as it is.

        Returns:
            The run afterwards.

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
            return Run.from_row(connection.execute(query).mappings().one())

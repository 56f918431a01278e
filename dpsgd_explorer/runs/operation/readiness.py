"""Readiness checks: each part that a site needs to train runs is tested by using it.

The checks run in parallel, and their results are returned before a deadline even if a
part hangs.  A load balancer would otherwise abort the probe and get no reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NoAnswerError
from dataclasses import dataclass

from sqlalchemy import select

from dpsgd_explorer.runs.database.upgrade import NEWEST, revision
from dpsgd_explorer.runs.doorbell import Doorbell
from dpsgd_explorer.runs.operation.workers import LOST_SECONDS, live_workers
from dpsgd_explorer.runs.store.database import Database
from dpsgd_explorer.runs.store.schema import runs

# Time for all checks together; load balancers commonly wait for three to five seconds.
DEADLINE_SECONDS = 2.0
# A check that hangs occupies its thread for some seconds; further checks are queued.
THREADS = 8


@dataclass(frozen=True, kw_only=True)
class Check:
    """Result of one check.

    Attributes:
        name: ``database``, ``schema``, ``queue`` or ``worker``.
        is_ok: True if the part works.
        says: State of the part, or the fault and its remedy.
    """

    name: str
    is_ok: bool
    says: str


class Readiness:
    """Checks the database, its schema, the queue and the workers.

    Args:
        database: Database of the runs.
        doorbell: Client of the queue.
        clock: Returns unix seconds.
    """

    def __init__(
        self, database: Database, doorbell: Doorbell, clock: Callable[[], float]
    ) -> None:
        self._database, self._doorbell, self._clock = database, doorbell, clock
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="readiness")

    def checks(self) -> list[Check]:
        """Runs all checks and returns their results."""
        checked = {
            "database": self._read_runs,
            "schema": self._compare_schema,
            "queue": self._count_messages,
            "worker": self._look_for_worker,
        }
        end = time.monotonic() + DEADLINE_SECONDS
        answers = {name: self._threads.submit(check) for name, check in checked.items()}
        return [_checked(name, answer, end) for name, answer in answers.items()]

    def _read_runs(self) -> str:
        with self._database.read() as connection:
            connection.execute(select(runs.c.id).limit(1)).all()
        return "ok"

    def _compare_schema(self) -> str:
        with self._database.read() as connection:
            version = revision(connection)
        if version != NEWEST:
            raise NotReadyError(
                f"the database has schema {version}, this program needs {NEWEST}"
            )
        return f"version {version}"

    def _count_messages(self) -> str:
        return f"{self._doorbell.huey.pending_count()} messages queued"

    def _look_for_worker(self) -> str:
        with self._database.read() as connection:
            workers = live_workers(connection, self._clock())
        alive = [worker for worker in workers if not worker.is_lost]
        if not workers:
            raise NotReadyError(
                "no worker was seen, so queued runs do not start. Start one with: "
                "python -m dpsgd_explorer worker"
            )
        if not alive:
            raise NotReadyError(
                f"no worker was seen for {workers[0].seen_s:.0f} seconds, more than "
                f"{LOST_SECONDS:.0f}, so queued runs do not start. Start one with: "
                "python -m dpsgd_explorer worker"
            )
        return f"{len(alive)} seen, the last {alive[0].seen_s:.0f} s ago"


class NotReadyError(Exception):
    """A part works, but its state prevents runs from training."""


def _checked(name: str, answer: Future[str], end: float) -> Check:
    try:
        says = answer.result(max(0.0, end - time.monotonic()))
        return Check(name=name, is_ok=True, says=says)
    except NoAnswerError as error:
        answer.cancel()
        says = str(error) or f"no answer within {DEADLINE_SECONDS:g} seconds"
        return Check(name=name, is_ok=False, says=says)
    except Exception as error:  # errors of Redis, PostgreSQL, SQLite or the disk
        says = str(error).strip().partition("\n")[0] or type(error).__name__
        return Check(name=name, is_ok=False, says=says)

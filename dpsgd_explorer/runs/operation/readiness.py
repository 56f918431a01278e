"""What a site needs in order to carry runs out, each checked by using it.

The checks run side by side and are answered for after some seconds, whatever hangs: a
load balancer gives a probe that does not answer up, and learns nothing.
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

# Seconds for all checks together; probes commonly wait for three to five.
DEADLINE_SECONDS = 2.0
# Checks that hang keep their threads for some seconds; further ones wait in line.
THREADS = 8


@dataclass(frozen=True, kw_only=True)
class Check:
    """One thing that a site needs.

    Attributes:
        name: ``database``, ``schema``, ``queue`` or ``worker``.
        says: What was seen, or what is wrong.
    """

    name: str
    is_ok: bool
    says: str


class Readiness:
    """Checks the database, its schema, the queue and the workers."""

    def __init__(
        self, database: Database, doorbell: Doorbell, clock: Callable[[], float]
    ) -> None:
        """Do nothing yet; ``clock`` gives unix seconds."""
        self._database, self._doorbell, self._clock = database, doorbell, clock
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="readiness")

    def checks(self) -> list[Check]:
        """Check everything now."""
        checked = {
            "database": self._read_runs,
            "schema": self._compare_schema,
            "queue": self._count_messages,
            "worker": self._look_for_worker,
        }
        end = time.monotonic() + DEADLINE_SECONDS
        asked = {name: self._threads.submit(check) for name, check in checked.items()}
        return [_checked(name, answer, end) for name, answer in asked.items()]

    def _read_runs(self) -> str:
        with self._database.read() as connection:
            connection.execute(select(runs.c.id).limit(1)).all()
        return "it can be read"

    def _compare_schema(self) -> str:
        with self._database.read() as connection:
            version = revision(connection)
        if version != NEWEST:
            raise NotReadyError(
                f"the database has schema {version}, this program needs {NEWEST}"
            )
        return f"version {version}"

    def _count_messages(self) -> str:
        return f"{self._doorbell.huey.pending_count()} messages waiting"

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
    """A site could not carry out runs now."""


def _checked(name: str, answer: Future[str], end: float) -> Check:
    try:
        says = answer.result(max(0.0, end - time.monotonic()))
        return Check(name=name, is_ok=True, says=says)
    except NoAnswerError as error:
        answer.cancel()
        says = str(error) or f"no answer within {DEADLINE_SECONDS:g} seconds"
        return Check(name=name, is_ok=False, says=says)
    except Exception as error:  # a driver's own: Redis, PostgreSQL, SQLite, the disk
        says = str(error).strip().partition("\n")[0] or type(error).__name__
        return Check(name=name, is_ok=False, says=says)

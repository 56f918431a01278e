"""Supervision of one training process from hand-over to end.

The process itself stores its normal end and the errors that it can catch.  Supervision
stores the other outcomes: the run was cancelled, the process was killed, or the time
was exceeded.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable

from dpsgd_explorer import logs, machine
from dpsgd_explorer.errors import LeaseLostError, StorageBusyError, StorageFullError
from dpsgd_explorer.runs.store.leases import LEASE_SECONDS, Leases
from dpsgd_explorer.runs.store.records import Claim
from dpsgd_explorer.runs.store.schema import CANCELLED
from dpsgd_explorer.runs.worker import limits, outcomes
from dpsgd_explorer.runs.worker.event_writer import HEARTBEATS_PER_LEASE
from dpsgd_explorer.runs.worker.process_pool import TrainingProcess
from dpsgd_explorer.settings import Settings

POLL_SECONDS = 0.1
# Maximum time before the first write of a process, which may have to load torch first.
HAND_OVER_SECONDS = 300.0
RETRY_SECONDS = 0.5
# Exit codes of processes killed from outside, by a user or the out-of-memory killer.
# After a kill by a user the run is tried again.
KILLED = frozenset({-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP})
ABORTED = frozenset({-signal.SIGABRT, -signal.SIGSEGV, -signal.SIGBUS})
# Minimum share of the memory limit at which an abort counts as lack of memory.
MIN_LIMIT_SHARE = 0.8
logger = logging.getLogger(__name__)


class HandOver:
    """Extends the lease of a run until its process does so itself."""

    def __init__(self, leases: Leases, claim: Claim, lease_s: float) -> None:
        """Extends the lease for the first time."""
        self._leases, self._claim, self._lease_s = leases, claim, lease_s
        now = time.monotonic()
        self._due, self._end = now, now + HAND_OVER_SECONDS
        self._lease_until: float | None = None
        self._is_over = False
        self.tend()

    def tend(self) -> None:
        """Extends the lease when due; called periodically."""
        now = time.monotonic()
        if self._is_over or now < self._due:
            return
        self._due = now + self._lease_s / HEARTBEATS_PER_LEASE
        try:
            self._lease_until = self._leases.extend_unspoken(
                self._claim, self._lease_until, lease_s=self._lease_s
            )
        except (StorageFullError, StorageBusyError) as error:
            logger.warning("run %s: %s", self._claim.run_id, error)
            return
        self._is_over = self._lease_until is None or now >= self._end


class Supervision:
    """Supervises one run in its process."""

    def __init__(
        self,
        leases: Leases,
        claim: Claim,
        process: TrainingProcess,
        settings: Settings,
        stop: threading.Event,
        *,
        lease_s: float = LEASE_SECONDS,
    ) -> None:
        """Hands the run over to the process.

        Args:
            leases: Leases of the store.
            claim: Claim of the run.
            process: Training process.
            settings: Settings of the installation.
            stop: Set when the consumer shuts down.
            lease_s: Length of a lease in seconds.
        """
        self._hand_over = HandOver(leases, claim, lease_s)
        self._leases, self._claim, self._process = leases, claim, process
        self._settings, self._stop = settings, stop
        self._oom_kills = machine.oom_kills()
        self._most_bytes = 0
        self._trusted_from = 0.0  # from then on, an expired lease counts as lost
        self._end = time.monotonic() + settings.wall_seconds
        process.hand_over(claim)

    def watch(self) -> None:
        """Waits until the process has ended and the state of the run is stored."""
        with logs.of_run(self._claim.run_id):
            self._watch()

    def _watch(self) -> None:
        while (code := self._process.exit_code(POLL_SECONDS)) is None:
            self._hand_over.tend()
            self._note_memory()
            settle = self._reason_to_end()
            if settle is not None:
                self._process.end()
                return self._insist(settle)
        self._process.close()
        if code != outcomes.EXIT_LEASE_LOST:
            self._insist(lambda: self._settle(code))

    def _note_memory(self) -> None:
        """Records the largest observed memory of the process."""
        if (pid := self._process.pid) is not None:
            self._most_bytes = max(self._most_bytes, limits.data_bytes(pid))

    def _ended_at_its_limit(self, code: int) -> bool:
        """Returns True if a process aborted near its memory limit.

        Libraries that get no memory abort the process without a message.
        """
        most = self._settings.run_memory_mib * 2**20
        return code in ABORTED and self._most_bytes >= MIN_LIMIT_SHARE * most

    def _reason_to_end(self) -> Callable[[], object] | None:
        """Returns a function that stores the outcome; None while the run continues."""
        order = "drain" if self._stop.is_set() else self._order()
        if order == "drain":
            return lambda: self._leases.release(self._claim, lost=False)
        if order == "paused":
            self._end += POLL_SECONDS
        if order == "cancel":
            return lambda: self._leases.finish(self._claim, CANCELLED)
        if order == "stop":
            return lambda: None
        if order == "lapsed":
            logger.warning("run %s: its process does not respond", self._claim.run_id)
            return lambda: self._leases.release(self._claim, lost=True)
        if time.monotonic() >= self._end:
            seconds = self._settings.wall_seconds
            return lambda: self._finish(outcomes.time_limit(seconds))
        return None

    def _order(self) -> str:
        """Returns the order in the database; "continue" if it does not answer.

        A lease may expire during an outage, so the process has some time to extend it
        after the outage.
        """
        now = time.monotonic()
        try:
            order = self._leases.order(self._claim)
        except StorageBusyError as error:
            if now >= self._trusted_from:
                logger.warning("run %s: %s", self._claim.run_id, error)
            self._trusted_from = now + LEASE_SECONDS
            return "continue"
        is_early = order == "lapsed" and now < self._trusted_from
        return "continue" if is_early else order

    def _settle(self, code: int) -> None:
        """Stores the outcome of the run, unless its process has stored it."""
        if self._leases.order(self._claim) == "stop":
            return
        if code == outcomes.EXIT_STORAGE_LOST:
            self._leases.release(self._claim, lost=False)
        elif self._ended_at_its_limit(code):
            self._finish(outcomes.memory_limit(self._settings.run_memory_mib))
        elif code not in KILLED:
            self._finish(outcomes.of_exit(code, seconds=self._settings.run_seconds))
        elif machine.oom_kills() > self._oom_kills:
            self._finish(outcomes.memory_limit(self._settings.run_memory_mib))
        else:
            logger.warning("the process of run %s was killed", self._claim.run_id)
            self._leases.release(self._claim, lost=not self._stop.is_set())

    def _finish(self, outcome: outcomes.Outcome) -> None:
        state, error = outcome
        self._leases.finish(self._claim, state, error=error)
        logger.warning("run %s: %s", self._claim.run_id, error["message"])

    def _insist(self, settle: Callable[[], object]) -> None:
        """Retries until the outcome is stored or the worker shuts down."""
        logged = ""
        while True:
            try:
                settle()
                return
            except LeaseLostError:
                return
            except (StorageFullError, StorageBusyError) as error:
                if str(error) != logged:
                    logged = str(error)
                    logger.warning(
                        "run %s cannot be stopped: %s", self._claim.run_id, logged
                    )
            if self._stop.wait(RETRY_SECONDS):
                return

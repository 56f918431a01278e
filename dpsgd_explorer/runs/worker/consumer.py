"""The consumer: claims runs when the doorbell rings, and trains them in processes."""

from __future__ import annotations

import logging
import signal
import threading
import time
from contextlib import suppress

from dpsgd_explorer import machine
from dpsgd_explorer.errors import ExplorerError
from dpsgd_explorer.experiments.events import Event
from dpsgd_explorer.runs.doorbell import Doorbell
from dpsgd_explorer.runs.operation.workers import WorkerSign
from dpsgd_explorer.runs.own_tables import TableSweep
from dpsgd_explorer.runs.store.leases import LEASE_SECONDS
from dpsgd_explorer.runs.store.records import Claim
from dpsgd_explorer.runs.store.retention import Sweep
from dpsgd_explorer.runs.store.store import RunStore
from dpsgd_explorer.runs.worker.heartbeat import Heartbeat
from dpsgd_explorer.runs.worker.process_pool import ProcessPool
from dpsgd_explorer.runs.worker.supervision import Supervision
from dpsgd_explorer.settings import Settings

# Time in the queue after which a run's doorbell message counts as lost.
OVERDUE_SECONDS = 5.0
TEND_SECONDS = 1.0
RETRY_SECONDS = 10.0
# Seconds between two polls of the queue by a thread.
LISTEN_SECONDS = 0.1
# Maximum pause of a thread after the queue did not answer.
MAX_RETRY_SECONDS = 5.0
SHUTDOWN_SECONDS = 6.0
logger = logging.getLogger(__name__)


class Consumer:
    """Trains up to ``settings.workers`` runs at the same time, one per thread."""

    def __init__(
        self,
        settings: Settings,
        *,
        lease_s: float = LEASE_SECONDS,
        loads_first: bool = False,
    ) -> None:
        """Opens the store and the queue, without claiming a run.

        Args:
            settings: Settings of the installation.
            lease_s: Length of a lease in seconds.
            loads_first: If True, a process begins to load torch before the database is
                opened, because the runs of a dead worker may be waiting.
        """
        self._pool = ProcessPool(settings, lease_s)
        if loads_first:
            self._pool.keep_warm(beside_runs=False)
        try:
            self.store = RunStore.from_settings(settings)
            self.doorbell = Doorbell(settings, self.answer)
        except BaseException:
            self._pool.close()  # or the loading process would outlive the worker
            raise
        self._settings = settings
        self._lease_s = lease_s
        self._sweep = Sweep(self.store, settings.keep_days)
        self._tables = TableSweep(
            self.store.database, settings.keep_days, clock=self.store.clock
        )
        self._heartbeat = Heartbeat(settings.instance_dir)
        self._sign = WorkerSign(
            self.store.database, settings.workers, clock=self.store.clock
        )
        self._running_per_visitor = settings.quotas.running
        self._busy = 0
        self._threads: list[threading.Thread] = []  # that answer without the queue
        self._reaps_from = 0.0
        self._lock = threading.Lock()
        self._stop = threading.Event()

    def run(self) -> None:
        """Trains runs until SIGTERM or SIGINT; current runs return to the queue."""
        waits = self.doorbell.huey.storage.blocking  # if not, huey polls the queue
        huey = self.doorbell.huey.create_consumer(
            workers=self._settings.workers,
            periodic=False,
            initial_delay=LISTEN_SECONDS,
            max_delay=MAX_RETRY_SECONDS if waits else LISTEN_SECONDS,
            backoff=2.0,
            scheduler_interval=60,  # there is nothing to schedule
            shutdown_timeout=SHUTDOWN_SECONDS,
        )
        self._heartbeat.beat()
        huey.start()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        overdue_s = 0.0  # at the start, ring for runs that were queued before
        while not self._stop.is_set():
            self.tend(overdue_s)
            self._heartbeat.beat()
            self._sign.tend(self._busy)
            overdue_s = OVERDUE_SECONDS
            huey.check_worker_health()
            self._stop.wait(TEND_SECONDS)
        huey.stop(graceful=True)
        for thread in self._threads:
            thread.join(SHUTDOWN_SECONDS)
        self._heartbeat.end()
        self._sign.end()
        self.close()

    def stop(self) -> None:
        """Starts the shutdown."""
        self._stop.set()

    def close(self) -> None:
        """Ends the spare processes and closes the database."""
        self._pool.close()
        self.store.database.close()

    def answer(self, _run_id: str) -> None:
        """Trains the next runs until the queue is empty; called by the doorbell."""
        with self._lock:
            if self._busy >= self._settings.workers:
                return  # late messages arrive together when the queue is back
            self._busy += 1
        try:
            while not self._stop.is_set() and self._answer_one():
                pass
        except ExplorerError as error:
            logger.warning("no run could be claimed: %s", error)
            self._stop.wait(RETRY_SECONDS)  # the next claim would fail too
        finally:
            with self._lock:
                self._busy -= 1

    def tend(self, overdue_s: float = OVERDUE_SECONDS) -> None:
        """Does periodic work: lost leases, lost messages, old runs, spare processes.

        Args:
            overdue_s: Time in the queue after which a run's message counts as lost.
        """
        try:
            # After an outage, holders of runs have some time to extend their leases.
            is_early = time.monotonic() < self._reaps_from
            to_ring = self.store.leases.reap(only_look=is_early)
            if not to_ring and self._busy < self._settings.workers:
                to_ring = self.store.leases.overdue(
                    overdue_s, running_per_visitor=self._running_per_visitor
                )
        except ExplorerError as error:
            logger.warning("the search for lost runs failed: %s", error)
            self._reaps_from = time.monotonic() + self._lease_s
            to_ring = []
        for run_id in to_ring:
            if not self.doorbell.ring(run_id):
                self._answer_without_queue(run_id)
        self._sweep.tend()
        self._tables.tend()
        self._pool.keep_warm(beside_runs=self._busy > 0)

    def _answer_without_queue(self, run_id: str) -> None:
        """Answers in a new thread, because the threads of the queue wait for it."""
        thread = threading.Thread(target=self.answer, args=(run_id,), daemon=True)
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        self._threads.append(thread)
        thread.start()

    def _answer_one(self) -> bool:
        if not self._has_room():
            return False
        claim = self.store.leases.claim(
            lease_s=self._lease_s, running_per_visitor=self._running_per_visitor
        )
        if claim is None:
            return False
        process = self._pool.take()
        if not process.is_warm:
            self._explain_start(claim)
        Supervision(
            self.store.leases,
            claim,
            process,
            self._settings,
            self._stop,
            lease_s=self._lease_s,
        ).watch()
        return True

    def _explain_start(self, claim: Claim) -> None:
        """Logs that the process of the run has to load torch first."""
        with suppress(ExplorerError):
            waits = Event(
                "progress", {"what": "torch", "seconds": self._pool.load_seconds}
            )
            self.store.leases.append(claim, [waits], lease_s=self._lease_s)

    def _has_room(self) -> bool:
        """Returns True if there is memory for one more run."""
        with self._lock:
            is_alone = self._busy <= 1
        return is_alone or machine.free_memory_mib() >= machine.PROCESS_MIB

    def _on_signal(self, *_: object) -> None:
        # In a thread, because the signal may have interrupted the holder of the lock.
        threading.Thread(target=self.stop).start()

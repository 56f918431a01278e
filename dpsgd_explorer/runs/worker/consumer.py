"""The consumer: claims runs, and trains them in processes.

One loop does the work.  A message of the queue, the end of a run and the shutdown wake
it; without any of them it looks at the database every second.  The queue is therefore
never the reason why a run does not start.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from contextlib import suppress

from huey import crontab

from dpsgd_explorer import machine
from dpsgd_explorer.errors import ExplorerError
from dpsgd_explorer.experiments.events import Event
from dpsgd_explorer.runs.doorbell import Doorbell
from dpsgd_explorer.runs.operation.workers import WorkerSign
from dpsgd_explorer.runs.own_tables import delete_old
from dpsgd_explorer.runs.store import retention
from dpsgd_explorer.runs.store.leases import LEASE_SECONDS
from dpsgd_explorer.runs.store.records import Claim
from dpsgd_explorer.runs.store.store import RunStore
from dpsgd_explorer.runs.worker.heartbeat import Heartbeat
from dpsgd_explorer.runs.worker.process_pool import ProcessPool
from dpsgd_explorer.runs.worker.supervision import Supervision
from dpsgd_explorer.settings import Settings

TEND_SECONDS = 1.0
# Pause after a run could not be claimed, for example because the disk is full.
RETRY_SECONDS = 10.0
# Maximum pause after the queue did not answer.
MAX_RETRY_SECONDS = 5.0
SHUTDOWN_SECONDS = 6.0
logger = logging.getLogger(__name__)


class Consumer:
    """Trains up to ``settings.workers`` runs at the same time."""

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
            self.doorbell = Doorbell(settings, self.hear)
            self.doorbell.huey.periodic_task(crontab(), name="sweep")(self.sweep)
        except BaseException:
            self._pool.close()  # or the loading process would outlive the worker
            raise
        self._settings = settings
        self._lease_s = lease_s
        self._heartbeat = Heartbeat(settings.instance_dir)
        self._sign = WorkerSign(
            self.store.database, settings.workers, clock=self.store.clock
        )
        self._running_per_visitor = settings.quotas.running
        self._training: set[threading.Thread] = set()
        self._claims_from = self._reaps_from = 0.0
        self._wake, self._stop = threading.Event(), threading.Event()

    def run(self) -> None:
        """Trains runs until SIGTERM or SIGINT; current runs return to the queue."""
        huey = self.doorbell.huey.create_consumer(
            workers=1,
            max_delay=MAX_RETRY_SECONDS,
            backoff=2.0,
            scheduler_interval=60,
            shutdown_timeout=SHUTDOWN_SECONDS,
        )
        huey.start()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        while not self._stop.is_set():
            self._heartbeat.beat()
            self.tend()
            self._heartbeat.beat()
            self._sign.tend(len(self._training))
            huey.check_worker_health()
            self._wake.wait(TEND_SECONDS)
            self._wake.clear()
        huey.stop(graceful=True)
        self.doorbell.huey.storage.close()
        for thread in tuple(self._training):
            thread.join(SHUTDOWN_SECONDS)
        self._heartbeat.end()
        self._sign.end()
        self.close()

    def stop(self) -> None:
        """Starts the shutdown."""
        self._stop.set()
        self._wake.set()

    def close(self) -> None:
        """Ends the spare processes and closes the database."""
        self._pool.close()
        self.store.database.close()

    def hear(self, _run_id: str) -> None:
        """Wakes the loop; called in huey's thread for each message."""
        self._wake.set()

    def tend(self) -> None:
        """Does the work of one second: lost leases, queued runs, spare processes.

        Each wait for the database can take many seconds, so heartbeats are in between.
        """
        try:
            # After an outage, holders of runs have some time to extend their leases.
            is_early = time.monotonic() < self._reaps_from
            self.store.leases.reap(only_look=is_early)
        except ExplorerError as error:
            logger.warning("the search for lost runs failed: %s", error)
            self._reaps_from = time.monotonic() + self._lease_s
        else:
            self._heartbeat.beat()
            while self.start_run() is not None:
                self._heartbeat.beat()
        self._pool.keep_warm(beside_runs=bool(self._training))

    def sweep(self) -> None:
        """Deletes old and deleted data; called in huey's thread every minute."""
        try:
            retention.sweep(self.store, self._settings.keep_days)
            now = self.store.clock()
            delete_old(self.store.database, self._settings.keep_days, now)
        except ExplorerError as error:
            logger.warning("old data could not be deleted: %s", error)

    def start_run(self) -> threading.Thread | None:
        """Claims the next run and trains it in a new thread.

        Returns:
            The thread; None if no run is queued, or there is no place or memory for it.
        """
        if not self._has_room() or time.monotonic() < self._claims_from:
            return None
        try:
            claim = self.store.leases.claim(
                lease_s=self._lease_s, running_per_visitor=self._running_per_visitor
            )
        except ExplorerError as error:
            logger.warning("no run could be claimed: %s", error)
            self._claims_from = time.monotonic() + RETRY_SECONDS
            return None
        if claim is None:
            return None
        thread = threading.Thread(target=self._train, args=(claim,), daemon=True)
        self._training.add(thread)
        thread.start()
        return thread

    def _train(self, claim: Claim) -> None:
        """Trains a run until its end; called in a thread of the run."""
        try:
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
        except ExplorerError as error:
            logger.warning("run %s is no longer supervised: %s", claim.run_id, error)
            self._claims_from = time.monotonic() + RETRY_SECONDS
        finally:
            self._training.remove(threading.current_thread())
            self._wake.set()

    def _explain_start(self, claim: Claim) -> None:
        """Logs that the process of the run has to load torch first."""
        with suppress(ExplorerError):
            waits = Event(
                "progress", {"what": "torch", "seconds": self._pool.load_seconds}
            )
            self.store.leases.append(claim, [waits], lease_s=self._lease_s)

    def _has_room(self) -> bool:
        """Returns True if there is a place and memory for one more run."""
        running = len(self._training)
        if running >= self._settings.workers or self._stop.is_set():
            return False
        return not running or machine.free_memory_mib() >= machine.PROCESS_MIB

    def _on_signal(self, *_: object) -> None:
        # In a thread, because the signal may have interrupted the holder of the lock.
        threading.Thread(target=self.stop).start()

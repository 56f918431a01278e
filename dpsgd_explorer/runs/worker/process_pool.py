"""Pool of the training processes of one consumer, some of them always warm.

Loading torch and the data takes seconds, so it is done ahead of time.  On Linux a fork
server loads them, and each training process is a fork of the server.  On other systems,
and if runs use a GPU, each training process loads them separately, one process after
another, because current runs need the cores: CUDA does not work in a fork of a process
that has used it.  The number of spare processes is the number of runs that can start
together, as far as there is memory.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from contextlib import suppress
from dataclasses import asdict
from subprocess import PIPE, Popen, TimeoutExpired

from dpsgd_explorer.machine import PROCESS_MIB, THREAD_VARIABLES, free_memory_mib
from dpsgd_explorer.operation import without_secrets
from dpsgd_explorer.runs.store.records import Claim
from dpsgd_explorer.runs.worker.forked_process import (
    ForkedProcess,
    ForkServer,
    can_fork,
    end,
)
from dpsgd_explorer.runs.worker.loading import Loading
from dpsgd_explorer.settings import Settings

# Delay before a new spare starts, so that its loading does not slow the start of a run.
SPARE_DELAY_SECONDS = 1.5
MAX_DELAY_SECONDS = 60.0
# Two spares, so that a run can start right after another even with one worker.
MIN_SPARES = 2
CPU = "cpu"
# Duration of loading after which the next process may load at the same time.
MAX_LOADING_SECONDS = 60.0


class TrainingProcess:
    """A training process in a separate process group, which ends with the worker.

    Attributes:
        load_seconds: Duration of loading by the process or its fork server; None while
            it loads.
        started: Time of the start, by the monotonic clock.
    """

    program: tuple[str, ...] = ("-m", "dpsgd_explorer.runs.worker.child")

    def __init__(
        self, settings: Settings, lease_s: float, server: ForkServer | None = None
    ) -> None:
        """Forks the process from the server, or starts a process that loads.

        Args:
            settings: Settings of the installation.
            lease_s: Length of a lease in seconds.
            server: Fork server; None starts a separate process.
        """
        if server is not None:
            self._process: Popen[bytes] | ForkedProcess = server.fork()
            self._loading = server.loading
        else:
            self._process = Popen(
                [sys.executable, *self.program, str(lease_s)],
                stdin=PIPE,
                stdout=PIPE,
                bufsize=0,
                env=environment(settings),
                process_group=0,
            )
            assert self._process.stdout is not None
            self._loading = Loading(self._process.stdout)
        self.load_seconds: float | None = None
        self.started = time.monotonic()

    @property
    def pid(self) -> int | None:
        """Process number; None before the process exists."""
        return self._process.pid

    @property
    def is_warm(self) -> bool:
        """True if torch and the first data set are loaded."""
        if self.load_seconds is None:
            self.load_seconds = self._loading.seconds()
        return self.load_seconds is not None

    def hand_over(self, claim: Claim) -> None:
        """Sends the process the claim of its run."""
        assert self._process.stdin is not None
        # If the process is dead, its exit code gives the reason.
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(asdict(claim)).encode() + b"\n")

    def exit_code(self, timeout: float = 0) -> int | None:
        """Returns the exit code; None if it still runs after ``timeout`` seconds."""
        try:
            return self._process.wait(timeout)
        except TimeoutExpired:
            return None

    def end(self) -> None:
        """Terminates the process, kills it if necessary, and closes its pipes."""
        end(self._process)
        self.close()

    def close(self) -> None:
        """Closes the worker's ends of the pipes."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:  # a fork writes to its server's standard output
                pipe.close()


class ProcessPool:
    """Keeps warm processes; each run takes one, and another one loads."""

    def __init__(self, settings: Settings, lease_s: float) -> None:
        """Creates an empty pool; ``keep_warm`` starts the first spare."""
        self._settings, self._lease_s = settings, lease_s
        self._lock = threading.Lock()
        self._spares: list[TrainingProcess] = []  # the oldest first
        self._loading: list[TrainingProcess] = []  # spares, and processes of runs
        self._spare_due = 0.0
        self._died = 0  # spares that ended in a row before they were taken
        self._most = max(MIN_SPARES, settings.workers)
        self._forks = settings.device == CPU and can_fork()
        self._server: ForkServer | None = None
        #: Duration of the last loading in seconds; None before the first.
        self.load_seconds: float | None = None

    def keep_warm(self, *, beside_runs: bool) -> None:
        """Starts a spare if one is missing; called periodically.

        Args:
            beside_runs: If True, runs are being trained.  A spare then needs twice its
                memory free, so that it does not displace a run.  A second spare always
                does.
        """
        now = time.monotonic()
        with self._lock:
            self._drop_dead(now)
            if len(self._spares) >= self._most or now < self._spare_due:
                return
            self._loading = [
                process for process in self._loading if _still_loads(process, now)
            ]
            if self._loading:
                return
            needs_room = beside_runs or bool(self._spares)
            if not needs_room or free_memory_mib() >= 2 * PROCESS_MIB:
                self._spares.append(self._start_loading())

    def take(self) -> TrainingProcess:
        """Returns the oldest warm spare, else the oldest spare, else a new process."""
        with self._lock:
            now = time.monotonic()
            self._drop_dead(now)
            self._spare_due = now + SPARE_DELAY_SECONDS
            if self._spares:
                self._died = 0
                warm = [spare for spare in self._spares if spare.is_warm]
                taken = (warm or self._spares)[0]
                self.load_seconds = taken.load_seconds or self.load_seconds
                self._spares.remove(taken)
                return taken
            return self._start_loading()

    def close(self) -> None:
        """Ends the spares and the fork server."""
        with self._lock:
            for spare in self._spares:
                spare.end()
            self._spares.clear()
            if self._server is not None:
                self._server.close()
                self._server = None

    def _drop_dead(self, now: float) -> None:
        """Removes ended spares, and doubles the delay before the next one."""
        for spare in [spare for spare in self._spares if spare.exit_code() is not None]:
            spare.close()
            self._spares.remove(spare)
            delay = SPARE_DELAY_SECONDS * 2**self._died
            self._spare_due = now + min(delay, MAX_DELAY_SECONDS)
            self._died += 1

    def _start_loading(self) -> TrainingProcess:
        self._loading.append(self._start())
        return self._loading[-1]

    def _start(self) -> TrainingProcess:
        if self._forks and (self._server is None or self._server.has_ended):
            if self._server is not None:
                self._server.close()
            arguments = [str(self._lease_s)]
            self._server = ForkServer(arguments, environment(self._settings))
        return TrainingProcess(self._settings, self._lease_s, self._server)


def environment(settings: Settings) -> dict[str, str]:
    """Returns the environment variables of training processes."""
    threads = {name: str(settings.threads) for name in THREAD_VARIABLES}
    # Autograd starts threads for each GPU that it sees, and then cannot be forked.
    hidden = {"CUDA_VISIBLE_DEVICES": "-1"} if settings.device == CPU else {}
    return without_secrets(os.environ | settings.to_environment()) | threads | hidden


def _still_loads(process: TrainingProcess, now: float) -> bool:
    if process.is_warm or process.exit_code() is not None:
        return False
    return now - process.started < MAX_LOADING_SECONDS

"""The training processes of one consumer, some of them always warm.

Loading torch and the data takes seconds, so it is done ahead of time.  On Linux a fork
server has loaded them, and each process is a fork of it; elsewhere each loads them by
itself.  Spare processes are as many as runs may begin together, while memory lasts.
Those that load do it one after another, since the runs in progress need the cores more.
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

# A new spare starts after this delay, so that its loading does not slow a run's start.
SPARE_DELAY_SECONDS = 1.5
LONGEST_DELAY_SECONDS = 60.0
# Two at least, for runs that follow each other.
LEAST_SPARES = 2
# A process that loads for longer than this no longer keeps the next one from loading.
LONGEST_LOADING_SECONDS = 60.0


class TrainingProcess:
    """A child in its own process group; it dies with us.

    Attributes:
        load_seconds: Seconds that it took to load, or its fork server did; None until
            then.
        started: Time of its start, by the monotonic clock.
    """

    program: tuple[str, ...] = ("-m", "dpsgd_explorer.runs.worker.child")

    def __init__(
        self, settings: Settings, lease_s: float, server: ForkServer | None = None
    ) -> None:
        """Have the server fork it, or start it; then it begins to load at once."""
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
        """The system's number for it; None as long as it does not exist."""
        return self._process.pid

    @property
    def is_warm(self) -> bool:
        """Whether torch and the first data set are loaded."""
        if self.load_seconds is None:
            self.load_seconds = self._loading.seconds()
        return self.load_seconds is not None

    def hand_over(self, claim: Claim) -> None:
        """Send it the claim of its run."""
        assert self._process.stdin is not None
        with suppress(
            BrokenPipeError
        ):  # it has died then; its exit code gives the reason
            self._process.stdin.write(json.dumps(asdict(claim)).encode() + b"\n")

    def exit_code(self, timeout: float = 0) -> int | None:
        """Return its exit code, or None if it still runs after ``timeout`` seconds."""
        try:
            return self._process.wait(timeout)
        except TimeoutExpired:
            return None

    def end(self) -> None:
        """Terminate it; kill it after a while."""
        end(self._process)
        self.close()

    def close(self) -> None:
        """Close our ends of its pipes."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:  # a fork writes where its server does
                pipe.close()


class ProcessPool:
    """Keeps warm processes; one is taken per run and the next one loads."""

    def __init__(self, settings: Settings, lease_s: float) -> None:
        """Start with nothing; ``keep_warm`` starts the first spare."""
        self._settings, self._lease_s = settings, lease_s
        self._lock = threading.Lock()
        self._spares: list[TrainingProcess] = []  # the oldest first
        self._loading: list[TrainingProcess] = []  # spares, and those of waiting runs
        self._spare_due = 0.0
        self._died = 0  # spares that ended in a row before they were taken
        self._most = max(LEAST_SPARES, settings.workers)
        self._forks = can_fork()
        self._server: ForkServer | None = None
        #: Seconds that a process took to load lately; None before the first.
        self.load_seconds: float | None = None

    def keep_warm(self, *, beside_runs: bool) -> None:
        """Start a spare if one is missing; call again and again.

        Args:
            beside_runs: Runs are being trained: they come first, so the spare must
                leave as much memory free as it takes, as a second one always must.
        """
        now = time.monotonic()
        with self._lock:
            self._drop_dead(now)
            if len(self._spares) >= self._most or now < self._spare_due:
                return
            self._loading = [each for each in self._loading if _still_loads(each, now)]
            if self._loading:
                return
            asks_for_room = beside_runs or bool(self._spares)
            if not asks_for_room or free_memory_mib() >= 2 * PROCESS_MIB:
                self._spares.append(self._start_loading())

    def take(self) -> TrainingProcess:
        """Return the oldest warm spare, else the oldest one, else a cold process."""
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
        """End the spares and the fork server."""
        with self._lock:
            for spare in self._spares:
                spare.end()
            self._spares.clear()
            if self._server is not None:
                self._server.close()
                self._server = None

    def _drop_dead(self, now: float) -> None:
        """Forget the spares that ended; wait longer each time before the next."""
        for spare in [spare for spare in self._spares if spare.exit_code() is not None]:
            spare.close()
            self._spares.remove(spare)
            delay = SPARE_DELAY_SECONDS * 2**self._died
            self._spare_due = now + min(delay, LONGEST_DELAY_SECONDS)
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
    """Return the variables of processes that train by these settings."""
    threads = {name: str(settings.threads) for name in THREAD_VARIABLES}
    return without_secrets(os.environ | settings.to_environment()) | threads


def _still_loads(process: TrainingProcess, now: float) -> bool:
    if process.is_warm or process.exit_code() is not None:
        return False
    return now - process.started < LONGEST_LOADING_SECONDS

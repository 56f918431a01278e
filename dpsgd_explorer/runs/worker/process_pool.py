"""The training processes of one consumer, some of them always warm.

Loading torch and the data takes seconds, so spare processes do it ahead of time: as
many as runs may begin together, while memory lasts.  They load one after another, since
the runs in progress need the cores more.
Processes are started afresh, never forked: a fork of a process that has used OpenMP
hangs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import asdict

from dpsgd_explorer.machine import PROCESS_MIB, THREAD_VARIABLES, free_memory_mib
from dpsgd_explorer.runs.store.records import Claim
from dpsgd_explorer.settings import Settings

# A new spare starts after this delay, so that its loading does not slow a run's start.
SPARE_DELAY_SECONDS = 1.5
LONGEST_DELAY_SECONDS = 60.0
# Two at least, for runs that follow each other.
LEAST_SPARES = 2
# A process that loads for longer than this no longer keeps the next one from loading.
LONGEST_LOADING_SECONDS = 60.0
# A child writes this word, then the seconds that loading torch and its first data set
# took, in a line.
WARM = b"warm"
GRACE_SECONDS = 3.0


class TrainingProcess:
    """A child in its own process group; it dies with us.

    Attributes:
        load_seconds: Seconds that it took to load; None while it does.
        started: Time of its start, by the monotonic clock.
    """

    program: tuple[str, ...] = ("-m", "dpsgd_explorer.runs.worker.child")

    def __init__(self, settings: Settings, lease_s: float) -> None:
        """Start it; it begins to load at once."""
        threads = {name: str(settings.threads) for name in THREAD_VARIABLES}
        self._popen = subprocess.Popen(
            [sys.executable, *self.program, str(lease_s)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env=os.environ | settings.to_environment() | threads,
            process_group=0,
        )
        assert self._popen.stdout is not None
        os.set_blocking(self._popen.stdout.fileno(), False)
        self.load_seconds: float | None = None
        self.started = time.monotonic()

    @property
    def pid(self) -> int:
        """The system's number for it."""
        return self._popen.pid

    @property
    def is_warm(self) -> bool:
        """Whether it has loaded torch and its first data set."""
        assert self._popen.stdout is not None
        if self.load_seconds is None and not self._popen.stdout.closed:
            line = (self._popen.stdout.read() or b"").split()
            if line[:1] == [WARM]:
                self.load_seconds = float(line[1])
        return self.load_seconds is not None

    def hand_over(self, claim: Claim) -> None:
        """Send it the claim of its run."""
        assert self._popen.stdin is not None
        with suppress(
            BrokenPipeError
        ):  # it has died then; its exit code gives the reason
            self._popen.stdin.write(json.dumps(asdict(claim)).encode() + b"\n")

    def exit_code(self, timeout: float = 0) -> int | None:
        """Return its exit code, or None if it still runs after ``timeout`` seconds."""
        try:
            return self._popen.wait(timeout)
        except subprocess.TimeoutExpired:
            return None

    def end(self, grace_s: float = GRACE_SECONDS) -> None:
        """Terminate it; kill it after the grace time."""
        self._popen.terminate()
        if self.exit_code(grace_s) is None:
            self._popen.kill()
            self._popen.wait()
        self.close()

    def close(self) -> None:
        """Close our ends of its pipes."""
        for pipe in (self._popen.stdin, self._popen.stdout):
            assert pipe is not None
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
        """End the spares."""
        with self._lock:
            for spare in self._spares:
                spare.end()
            self._spares.clear()

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
        return TrainingProcess(self._settings, self._lease_s)


def _still_loads(process: TrainingProcess, now: float) -> bool:
    if process.is_warm or process.exit_code() is not None:
        return False
    return now - process.started < LONGEST_LOADING_SECONDS

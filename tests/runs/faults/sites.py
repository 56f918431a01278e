"""A site in one of three configurations, whose processes a test can kill."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from sqlalchemy import select

from dpsgd_explorer.experiments.events import Event
from dpsgd_explorer.runs.doorbell import Doorbell
from dpsgd_explorer.runs.feed import Hub
from dpsgd_explorer.runs.operation.workers import live_workers
from dpsgd_explorer.runs.store.schema import events, runs
from dpsgd_explorer.runs.store.store import RunStore
from dpsgd_explorer.runs.worker import heartbeat
from dpsgd_explorer.settings import Settings
from tests.runs.system_processes import children_of, trainer_of
from tests.server.processes import descendants

SQLITE, REDIS, POSTGRESQL = "sqlite", "postgresql and redis", "postgresql"
#: Leases of the workers here: shorter than in the product, for tests wait for them.
LEASE_SECONDS = 4.0
#: What a listener may have to wait for the next word, whatever dies.
SILENCE_SECONDS = 5.0
#: A wait that ends as promised on an idle machine has so many times as long.
SLACK = 6
LOG_LINES = 25
PRESSURE = Path("/proc/pressure/cpu")


def sites(*names, sqlite="real runs"):
    """Run a test on these configurations, on all three if none is named.

    Args:
        names: Of configurations.
        sqlite: Family of long tests that the variant on SQLite belongs to; None: it is
            quick.
    """
    families = dict.fromkeys((SQLITE, REDIS, POSTGRESQL), "servers") | {SQLITE: sqlite}
    marks = {name: pytest.mark.long(f) if f else () for name, f in families.items()}
    params = [pytest.param(n, marks=marks[n]) for n in names or families]
    return pytest.mark.parametrize("site", params, indirect=True)


def calm_seconds():
    """Return a clock that stops while a process of this machine waits for a core."""
    stalled = 0
    with contextlib.suppress(OSError):  # a kernel without these counts
        stalled = int(PRESSURE.read_text().split("total=")[1].split()[0])
    return time.monotonic() - stalled / 1e6


@dataclass
class Heard:
    """What a listener of one run heard, and how long it waited for each event."""

    seqs: list = field(default_factory=list)
    waits: list = field(default_factory=list)

    @property
    def silence(self):
        """Return the longest wait in seconds."""
        return max(self.waits)


def join(hub):
    """Wait until the thread of a hub without listeners has closed its connection."""
    if (thread := hub._thread) is not None:
        thread.join(SLACK * SILENCE_SECONDS)


def answers(port):
    """Whether a web server listens there and is well."""
    with contextlib.suppress(OSError):
        address = f"http://127.0.0.1:{port}/healthz"
        return urllib.request.urlopen(address, timeout=10).close() is None
    return False


class Site:
    """Settings, a store, workers; what goes wrong is shown with their last words."""

    def __init__(self, settings: Settings, folder: Path):
        self.settings, self.folder = settings, folder
        self.store = RunStore(settings.database_url, outage_s=60)
        self.doorbell = Doorbell(settings)
        self.doorbell.huey.flush()
        self.processes = []

    def worker(self, *, lease_s=LEASE_SECONDS, offset_s=0.0, **variables):
        """Start a worker, on servers as if on a machine of its own."""
        settings = self.settings
        if not self.store.database.is_embedded:
            place = self.folder / f"machine-{len(self.processes)}"
            settings = replace(settings, instance_dir=place)
        program = ["tests.runs.faults.worker_process", str(lease_s), str(offset_s)]
        process = self.start(program, settings.to_environment() | variables)
        process.heartbeat = heartbeat.file_of(settings.instance_dir, process.pid)
        return process

    def web(self, port, **variables):
        """Start the web server and its supervisor; return when it answers."""
        environment = self.settings.to_environment() | {"PORT": str(port)} | variables
        command = ["dpsgd_explorer", "serve", "--only", "web"]
        process = self.start(command, environment)
        self.until(lambda: answers(port), 10)
        return process

    def start(self, command, environment):
        """Start a module of Python; its output goes to a file of the test."""
        with (self.folder / f"log-{len(self.processes)}").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", *command],
                env=os.environ | environment,
                stdout=log,
                stderr=log,
            )
        self.processes.append(process)
        return process

    def launch(self, config, visitor="ann"):
        """Queue a run and ring for it, as the web server does; return its id."""
        run_id = self.store.create(config, visitor=visitor).id
        self.doorbell.ring(run_id)
        return run_id

    @property
    def changes(self):
        """Return the settings in which configurations differ."""
        names = ("database_url", "queue_url", "takes_own_data")
        return {name: getattr(self.settings, name) for name in names}

    def workers_seen(self):
        """Return the number of workers that have given a sign."""
        with self.store.database.read() as connection:
            return len(live_workers(connection, self.store.clock()))

    def append_steps(self, claim, first, end):
        """Write steps for a run as its process does."""
        for number in range(first, end):
            data = {"step": number, "epsilon": number / 100, "seconds": 0.1}
            self.store.leases.append(claim, [Event("step", data)])

    def until(self, condition, seconds):
        """Return the first true value of a condition, due within so many seconds."""
        end = time.monotonic() + SLACK * seconds
        while not (value := condition()):
            assert time.monotonic() < end, f"not within {seconds} s\n{self.state()}"
            failed = [each for each in self.processes if (each.poll() or 0) > 0]
            assert not failed, f"a process ended by itself\n{self.state()}"
            time.sleep(0.02)
        return value

    def ended(self, run_id, seconds=30):
        """Wait for a run's end; return the run."""
        return self.until(
            lambda: (run := self.store.get(run_id)).has_ended and run, seconds
        )

    def holder_of(self, run_id):
        """Return the process number of the worker that holds a run, or None."""
        query = select(runs.c.holder).where(
            runs.c.id == run_id, runs.c.state == "running"
        )
        with self.store.database.read() as connection:
            name = connection.scalar(query)
        return int(name.split()[2]) if name else None

    def fence_of(self, run_id):
        """Return how many times a run was claimed."""
        with self.store.database.read() as connection:
            return connection.scalar(select(runs.c.fence).where(runs.c.id == run_id))

    def trainer_of(self, run_id):
        """Return the process that trains a run: it has the run's name."""
        worker = self.holder_of(run_id)
        assert worker is not None, f"nobody trains {run_id}\n{self.state()}"
        return trainer_of(run_id, worker)

    @contextlib.contextmanager
    def listening(self, run_id):
        """Listen to a run until its end; the context yields what was heard."""
        heard = Heard()
        hub = Hub(self.store, heartbeat_s=1.0)

        def listen():
            before = calm_seconds()
            for event in hub.follow(run_id):
                if event is None:
                    continue
                now = calm_seconds()
                heard.seqs.append(event.seq)
                heard.waits.append(now - before)
                before = now

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        yield heard
        thread.join(SLACK * SILENCE_SECONDS)
        assert not thread.is_alive(), self.state()
        join(hub)

    def state(self):
        """Return the rows of runs and the ends of all logs, for a failed test."""
        parts = []
        columns = [runs.c[name] for name in ("id", "state", "fence", "tries", "step")]
        columns += [runs.c.holder, runs.c.lease_until, runs.c.cancel, runs.c.error]
        try:
            with self.store.database.read() as connection:
                parts += map(str, connection.execute(select(*columns)).mappings())
                newest = select(events).order_by(events.c.id.desc()).limit(5)
                parts += [str(row)[:300] for row in connection.execute(newest)]
            parts.append(f"lease clock {self.store.leases.lease_clock()}")
            parts.append(f"messages {self.doorbell.huey.pending_count()}")
        except Exception as error:
            parts.append(f"{type(error).__name__}: {error}")
        for number, process in enumerate(self.processes):
            children = children_of(process.pid)
            parts.append(f"process {process.pid}: {process.poll()}, below {children}")
            text = (self.folder / f"log-{number}").read_text(errors="replace")
            parts += text.splitlines()[-LOG_LINES:]
        return "\n".join(parts)

    def close(self):
        """End every process that was started here."""
        below = [pid for each in self.processes for pid in descendants(each.pid)]
        for process in self.processes:
            process.kill()
            process.wait()
        for pid in below:  # one that has just begun does not see its parent's end yet
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.doorbell.huey.storage.close()
        self.store.database.close()

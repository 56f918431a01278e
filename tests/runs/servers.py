"""PostgreSQL and Redis, started for the tests on loopback, by a user without rights."""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg
import pytest
import redis

from tests.ports import free_port
from tests.runs.system_processes import children_of

#: Where a module's tests have their runs; the second for `make test-all` only.
DATABASES = (
    "sqlite",
    pytest.param("postgresql", marks=pytest.mark.long("servers")),
)
PASSWORD = "not-a-secret"
START_SECONDS = 60
UNPRIVILEGED = "nobody"
# No write has to survive the machine, only the server.
QUICK = ("fsync=off", "full_page_writes=off", "shared_buffers=16MB")


def postgresql_program(name):
    """Return a program of the newest PostgreSQL here; Debian has no link to it."""
    folders = sorted(
        Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parts[-2])
    )
    return str(folders[-1] / name) if folders else name


class Server:
    """A process in a folder of its own, which outlives neither it nor the tests."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="dpsgd-server-", dir="/tmp"))
        if os.getuid() == 0:
            shutil.chown(self.folder, UNPRIVILEGED)
        self.process = None

    def unprivileged(self):
        """Return what a subprocess needs to run without rights; PostgreSQL insists."""
        if os.getuid() != 0:
            return {"cwd": self.folder}
        user = pwd.getpwnam(UNPRIVILEGED)
        return {
            "cwd": self.folder,
            "user": user.pw_uid,
            "group": user.pw_gid,
            "extra_groups": [],
        }

    def start(self):
        """Start it at a port of its own, which it keeps; another may take it first."""
        for _ in range(10):
            self.port = getattr(self, "port", None) or free_port()
            with (self.folder / "log").open("ab") as log:
                self.process = subprocess.Popen(
                    self.command(), stdout=log, stderr=log, **self.unprivileged()
                )
            if self.answers():
                return self
            self.port = None
        raise AssertionError((self.folder / "log").read_text())

    def answers(self):
        end = time.monotonic() + START_SECONDS
        while self.process.poll() is None and time.monotonic() < end:
            with contextlib.suppress(psycopg.OperationalError, redis.RedisError):
                self.ask()
                return True
            time.sleep(0.02)
        return False

    def stop(self, number=signal.SIGKILL):
        self.process.send_signal(number)
        self.process.wait()

    @contextlib.contextmanager
    def hung(self):
        """Let it hang: its processes stand still, the kernel still takes packets."""
        stopped = [self.process.pid, *children_of(self.process.pid)]
        try:
            for pid in stopped:
                os.kill(pid, signal.SIGSTOP)
            yield
        finally:
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)

    def close(self):
        if self.process.poll() is None:
            self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


class PostgreSQL(Server):
    def __init__(self):
        super().__init__()
        password = self.folder / "password"
        password.write_text(PASSWORD)
        password.chmod(0o644)
        subprocess.run(
            [
                postgresql_program("initdb"),
                *("-D", self.folder / "data", "-U", "explorer", "--no-sync"),
                *("-A", "password", "--pwfile", password),
                *("-E", "UTF8", "--locale", "C"),
            ],
            check=True,
            capture_output=True,
            **self.unprivileged(),
        )

    def command(self):
        own = (f"unix_socket_directories={self.folder}", "listen_addresses=127.0.0.1")
        settings = [f"--{each}" for each in (*own, *QUICK)]
        program = postgresql_program("postgres")
        return [program, "-D", self.folder / "data", f"--port={self.port}", *settings]

    def url(self, database="postgres"):
        place = f"127.0.0.1:{self.port}/{database}"
        return f"postgresql+psycopg://explorer:{PASSWORD}@{place}"

    def ask(self, statement="SELECT 1", database="postgres"):
        url = self.url(database).replace("+psycopg", "")
        with psycopg.connect(url, autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else None

    def stop(self, number=signal.SIGQUIT):
        """Stop it without a farewell to its clients, as in a crash."""
        super().stop(number)


class Redis(Server):
    def command(self):
        return [
            "redis-server",
            *("--bind", "127.0.0.1", "--port", str(self.port)),
            *("--requirepass", PASSWORD, "--save", "", "--dir", str(self.folder)),
        ]

    @property
    def url(self):
        return f"redis://:{PASSWORD}@127.0.0.1:{self.port}/0"

    def ask(self):
        with redis.Redis.from_url(self.url) as connection:
            return connection.ping()

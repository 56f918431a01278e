"""Supervisor of the site's processes: web server, worker and, if configured, nginx.

The supervisor is small on purpose.  It opens the socket itself, so that a port in use
is reported immediately, and no request is rejected while the web server starts.  It
starts the services, restarts them after a crash, forwards SIGTERM and SIGINT, and ends
after all services.  If a service dies, the supervisor adopts its child processes.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.logs import notice
from dpsgd_explorer.operation import without_secrets
from dpsgd_explorer.runs.files.one_machine import (
    refuse_other_machines,
    refuse_shared_folder,
)
from dpsgd_explorer.runs.files.schema_version import has_later_schema
from dpsgd_explorer.runs.worker.heartbeat import (
    HUNG_SECONDS,
    MAX_START_SECONDS,
    file_of,
    forget,
    seconds_since,
)
from dpsgd_explorer.runs.worker.prctl import adopt_orphans, children
from dpsgd_explorer.server.front import MAX_CONNECTIONS, SOCKET_NAME, find_nginx
from dpsgd_explorer.settings import FILE, Settings

BACKLOG = 1024
PARTS = WEB, WORKER = "web", "worker"
WAKE_SECONDS = 1.0
# Time after its start within which the end of a service counts as a failed start.
START_SECONDS = 5.0
MAX_FAILED_STARTS = 3
SHUTDOWN_SECONDS = 8.0
# A longer wait means that the machine or container was paused.
PAUSE_SECONDS = 5.0
# Descriptors of a process. Containers allow a billion, and some programs try them all.
MAX_DESCRIPTORS = 65536


@dataclass
class Service:
    """A process that runs as long as the supervisor.

    Attributes:
        name: Name in the log.
        command: Arguments of the Python interpreter.
        sockets: File descriptors that the process inherits.
        signs: Instance folder with the heartbeat file; None without heartbeats.
        environment: Environment variables; None uses the supervisor's variables.
        is_front: If True, the service is ended last, because the other services still
            answer requests through it.
        process: The process; None if it does not run.
        started_at: Time of the last start, by the monotonic clock.
        failed_starts: Number of consecutive failed starts.
    """

    name: str
    command: list[str]
    sockets: tuple[int, ...] = ()
    signs: Path | None = None
    environment: Mapping[str, str] | None = None
    is_front: bool = False
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    failed_starts: int = 0

    def start(self) -> None:
        """Starts the process in a new process group, with a pipe as standard input."""
        self.started_at = time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, *self.command],
            stdin=subprocess.PIPE,
            pass_fds=self.sockets,
            env=self.environment,
            process_group=0,
        )

    def signal(self, number: int) -> None:
        """Sends a signal to the process, if it runs."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid, number)

    def kill_if_hung(self, since: float) -> None:
        """Kills a process whose heartbeats stopped or, after minutes, never began.

        Args:
            since: Start of the observation, by the monotonic clock.
        """
        if self.signs is None or self.process is None:
            return
        seen = seconds_since(file_of(self.signs, self.process.pid))
        watched = time.monotonic() - max(since, self.started_at)
        most = MAX_START_SECONDS if seen is None else HUNG_SECONDS
        if watched > most and (seen is None or seen > most):
            notice(f"the {self.name} does not respond and is killed")
            self.signal(signal.SIGKILL)

    def has_ended(self, code: int) -> None:
        """Records that the process has ended with an exit code."""
        assert self.process is not None
        if self.signs is not None:
            forget(file_of(self.signs, self.process.pid))
        self.process.returncode = code  # Popen must not wait for the process again
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process = None
        is_early = time.monotonic() - self.started_at < START_SECONDS
        self.failed_starts = self.failed_starts + 1 if is_early else 0


class Supervisor:
    """Keeps services running until SIGTERM or SIGINT."""

    def __init__(self, services: list[Service]) -> None:
        self._services = services
        self._stopping = False

    def run(self) -> int:
        """Runs the services; returns 0 after a signal, 1 if a service cannot start."""
        adopt_orphans()
        with self._signals() as wake:
            for service in self._services:
                service.start()
            awake = awake_since = time.monotonic()
            while not self._stopping and not self._failed():
                _sleep(wake, WAKE_SECONDS)
                self._collect()
                self._restart()
                before, awake = awake, time.monotonic()
                # After a pause of this process, the services may have been paused too.
                if awake - before > PAUSE_SECONDS:
                    awake_since = awake
                for service in self._services:
                    service.kill_if_hung(awake_since)
            code = 0 if self._stopping else 1
            self._end_all(wake)
        return code

    def _failed(self) -> Service | None:
        """Returns a service that failed to start too often; None without one."""
        for service in self._services:
            if service.failed_starts >= MAX_FAILED_STARTS:
                notice(f"the {service.name} does not start. Its messages are above")
                return service
        return None

    def _restart(self) -> None:
        for service in self._services:
            if service.process is None and not self._stopping and not self._failed():
                notice(f"the {service.name} ended; starting it again")
                service.start()

    def _collect(self) -> None:
        """Records every process that has ended, adopted orphans included."""
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                for service in self._services:
                    if service.process is not None and service.process.pid == ended[0]:
                        service.has_ended(os.waitstatus_to_exitcode(ended[1]))

    def _end_all(self, wake: int) -> None:
        """Terminates every service, waits, then kills the remaining processes."""
        end = time.monotonic() + SHUTDOWN_SECONDS
        for is_front in (False, True):
            for service in self._running(is_front):
                service.signal(signal.SIGTERM)
            while self._running(is_front) and time.monotonic() < end:
                _sleep(wake, WAKE_SECONDS)
                self._collect()
            for service in self._running(is_front):
                notice(f"the {service.name} did not stop in time and is killed")
                service.signal(signal.SIGKILL)
                assert service.process is not None
                service.process.wait()
        while orphans := children():  # children of services that were killed
            for pid in orphans:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)

    def _running(self, is_front: bool) -> list[Service]:
        return [
            service
            for service in self._services
            if service.process is not None and service.is_front is is_front
        ]

    @contextlib.contextmanager
    def _signals(self) -> Iterator[int]:
        """Opens a descriptor that becomes readable at each signal."""
        wake, written = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(written, False)
        handlers = {
            signal.SIGTERM: self._stop,
            signal.SIGINT: self._stop,
            signal.SIGCHLD: lambda *_: None,  # only to be woken
        }
        before = {
            number: signal.signal(number, new) for number, new in handlers.items()
        }
        signal.set_wakeup_fd(written)
        try:
            yield wake
        finally:
            signal.set_wakeup_fd(-1)
            for number, old in before.items():
                signal.signal(number, old)
            os.close(wake)
            os.close(written)

    def _stop(self, *_: object) -> None:
        self._stopping = True


def serve(settings: Settings, only: str | None = None) -> int:
    """Runs the site until SIGTERM or SIGINT; returns the exit code.

    Args:
        settings: Settings of the installation.
        only: One of PARTS, if the other part runs elsewhere; None runs both.

    Raises:
        ConfigError: The port cannot be opened, nginx is not installed, or the database
            cannot be used, see ``check_database``.
    """
    check_database(settings)
    raise_file_limit()
    worker = Service(
        "worker",
        ["-m", "dpsgd_explorer", "worker", "--until-stdin-closes"],
        signs=settings.instance_dir,
        environment=without_secrets(os.environ),
    )
    if only == WORKER:
        notice(
            "A worker of DP-SGD Explorer is waiting for runs  (press Ctrl-C to stop it)"
        )
        return Supervisor([worker]).run()
    with web_services(settings) as web:
        return Supervisor([*web, *([] if only == WEB else [worker])]).run()


@contextlib.contextmanager
def web_services(settings: Settings) -> Iterator[list[Service]]:
    """Yields the services that answer requests: gunicorn and, if configured, nginx."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(listening_socket(settings.host, settings.port))
        host, port = listener.getsockname()[:2]
        notice(
            f"DP-SGD Explorer is at http://{_browsable(host)}:{port}  (press Ctrl-C to "
            "stop it)"
        )
        if settings.is_direct:
            notice(
                f"HOST is {settings.host}, but the web server has no nginx in front: "
                "slow clients can stop it. Set DPSGD_FRONT=nginx to start nginx."
            )
        services = []
        if settings.has_front:
            find_nginx()
            listener.close()  # the port is free; nginx opens it again
            folder = stack.enter_context(_temporary_folder(settings))
            listener = stack.enter_context(_unix_socket(f"{folder}/{SOCKET_NAME}"))
            arguments = ["-m", "dpsgd_explorer.server.front", host, str(port), folder]
            services.append(
                Service(
                    "nginx",
                    arguments,
                    environment=without_secrets(os.environ, all_of_them=True),
                    is_front=True,
                )
            )
        number = listener.fileno()
        command = ["-m", "dpsgd_explorer.server.gunicorn", str(number)]
        yield [Service("web server", command, (number,)), *services]


def raise_file_limit() -> None:
    """Raises the limit of open files of this process and its children."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else hard
    wanted = max(soft, min(wanted, MAX_DESCRIPTORS))
    if soft != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def check_database(settings: Settings) -> None:
    """Checks that the database can be used, or migrated at its first use.

    Raises:
        ConfigError: A server does not answer, the tables have another version, or the
            files are not on a disk of this machine.
    """
    check_files(settings)
    if not settings.database_url.startswith(FILE):
        # Imported here because files need neither SQLAlchemy nor huey in this process.
        from dpsgd_explorer.runs.operation.servers import check_servers

        check_servers(settings)
        return
    if has_later_schema(_path_of(settings.database_url)):
        from dpsgd_explorer.runs.store.database import Database

        Database(settings.database_url).close()  # raises


def check_files(settings: Settings) -> None:
    """Checks that SQLite files are used on this machine only.

    Raises:
        ConfigError: A file is on a network file system, or another machine uses it.
    """
    if not settings.database_url.startswith(FILE):
        return
    addresses = {
        "DPSGD_DATABASE_URL": settings.database_url,
        "DPSGD_QUEUE_URL": settings.queue_url,
    }
    for variable, url in addresses.items():
        refuse_shared_folder(variable, _path_of(url))
    refuse_other_machines(_path_of(settings.database_url))


def _path_of(url: str) -> Path:
    """Returns the path of the SQLite file with this address."""
    return Path(url.removeprefix(f"{FILE}/"))


def _temporary_folder(settings: Settings) -> tempfile.TemporaryDirectory[str]:
    """Returns a new folder for nginx's files, which only this user can open."""
    try:
        return tempfile.TemporaryDirectory(prefix="dpsgd-front-")
    except FileNotFoundError:  # no folder for temporary files is writable
        return tempfile.TemporaryDirectory(prefix="front-", dir=settings.instance_dir)


def _unix_socket(path: str) -> socket.socket:
    """Returns a listening Unix socket."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    # If the queue is full, a Unix socket rejects connections. Half of nginx's
    # connections are to clients.
    listener.listen(MAX_CONNECTIONS // 2)
    return listener


def listening_socket(host: str, port: int) -> socket.socket:
    """Returns a listening socket; raises ConfigError if it cannot be opened."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise ConfigError(
                "PORT",
                f"port {port} on {host} is in use by another program. Stop that "
                f"program, or choose another port, such as PORT={port + 1}.",
            ) from None
        raise ConfigError(
            "HOST",
            f"HOST and PORT must be an address of this machine, got {host}:{port} "
            f"({error.strerror}).",
        ) from None


def _browsable(host: str) -> str:
    """Returns the host for the URL in a browser on this machine."""
    if host in ("0.0.0.0", "::"):
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host


def _sleep(wake: int, seconds: float) -> None:
    """Waits for a signal, at most ``seconds``."""
    if select.select([wake], [], [], seconds)[0]:
        os.read(wake, 4096)

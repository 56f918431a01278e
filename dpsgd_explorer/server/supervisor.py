"""The whole product in one command: nginx if asked for, web server and consumer.

The supervisor is small on purpose.  It opens the socket, so that a port in use is
reported at once and no request is refused while the web server starts.  It starts all,
restarts them if they crash, passes SIGTERM and SIGINT on, and ends with all of them.
It adopts the processes of a service that died before it could end them.
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
# A service that ends sooner than this has failed to start.
START_SECONDS = 5.0
MOST_FAILED_STARTS = 3
SHUTDOWN_SECONDS = 8.0
# A wait lasts longer only if the whole machine or container was paused.
PAUSE_SECONDS = 5.0
# Descriptors of a process. Containers allow a billion, and some programs try them all.
MAX_DESCRIPTORS = 65536


@dataclass
class Service:
    """One process that is to run as long as we do.

    Attributes:
        name: Name in the log.
        command: Arguments of the Python interpreter.
        sockets: File descriptors it inherits.
        signs: Folder of its heartbeat file; None: it has none.
        environment: Its variables; None: those of this process.
        is_front: If True, it is ended after the others, which still answer through it.
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
        """Start it in its own process group, with a pipe from us as standard input."""
        self.started_at = time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, *self.command],
            stdin=subprocess.PIPE,
            pass_fds=self.sockets,
            env=self.environment,
            process_group=0,
        )

    def signal(self, number: int) -> None:
        """Send a signal, if it runs."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid, number)

    def kill_if_hung(self, since: float) -> None:
        """Kill a process without a heartbeat for too long.

        Args:
            since: When we began to watch, by the monotonic clock.
        """
        if self.signs is None or self.process is None:
            return
        seen = seconds_since(file_of(self.signs, self.process.pid))
        watched = time.monotonic() - max(since, self.started_at)
        if watched > HUNG_SECONDS and (seen is None or seen > HUNG_SECONDS):
            notice(f"the {self.name} does not respond and is killed")
            self.signal(signal.SIGKILL)

    def has_ended(self, code: int) -> None:
        """Record that its process has ended."""
        assert self.process is not None
        if self.signs is not None:
            forget(file_of(self.signs, self.process.pid))
        self.process.returncode = code  # we waited for it, so Popen need not
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process = None
        is_early = time.monotonic() - self.started_at < START_SECONDS
        self.failed_starts = self.failed_starts + 1 if is_early else 0


class Supervisor:
    """Keeps services running until a signal stops it."""

    def __init__(self, services: list[Service]) -> None:
        """Start nothing yet."""
        self._services = services
        self._stopping = False

    def run(self) -> int:
        """Return the exit code: 0 after a signal, 1 if a service does not start."""
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
                # We were paused, and perhaps the services too.
                if awake - before > PAUSE_SECONDS:
                    awake_since = awake
                for service in self._services:
                    service.kill_if_hung(awake_since)
            code = 0 if self._stopping else 1
            self._end_all(wake)
        return code

    def _failed(self) -> Service | None:
        """Return a service that failed to start too often."""
        for service in self._services:
            if service.failed_starts >= MOST_FAILED_STARTS:
                notice(f"the {service.name} does not start. Its messages are above")
                return service
        return None

    def _restart(self) -> None:
        for service in self._services:
            if service.process is None and not self._stopping and not self._failed():
                notice(f"the {service.name} ended; starting it again")
                service.start()

    def _collect(self) -> None:
        """Record every process that has ended, adopted orphans included."""
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                for service in self._services:
                    if service.process is not None and service.process.pid == ended[0]:
                        service.has_ended(os.waitstatus_to_exitcode(ended[1]))

    def _end_all(self, wake: int) -> None:
        """Terminate every service, wait, then kill all that remains."""
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
        while orphans := children():  # of a service that was killed, or had just begun
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
        """Open a descriptor that wakes a select whenever a signal comes."""
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
    """Run the product until SIGTERM or SIGINT; return the exit code.

    Args:
        settings: Of this installation.
        only: One of PARTS, where the others run elsewhere; None: all here.

    Raises:
        ConfigError: nothing can listen at this host and port, nginx is not installed,
            or the database cannot be used, see ``check_database``.
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
    """Returns the processes that answer requests: gunicorn, and nginx if asked for."""
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
            listener.close()  # nginx opens it again; the port is known to be free
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
    """Lets this process and its children open as many files as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else hard
    wanted = max(soft, min(wanted, MAX_DESCRIPTORS))
    if soft != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def check_database(settings: Settings) -> None:
    """Does nothing if the database can be used as it is, or brought up to date.

    Raises:
        ConfigError: a server does not answer, tables are of another version, or files
            are not those of this machine.
    """
    check_files(settings)
    if not settings.database_url.startswith(FILE):
        # Here: this process needs neither SQLAlchemy nor huey for files.
        from dpsgd_explorer.runs.operation.servers import check_servers

        check_servers(settings)
        return
    if has_later_schema(_path_of(settings.database_url)):
        from dpsgd_explorer.runs.store.database import Database

        Database(settings.database_url).close()  # raises


def check_files(settings: Settings) -> None:
    """Do nothing if database and queue are servers, or files of this machine alone.

    Raises:
        ConfigError: they are on a network file system, or another machine uses them.
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
    """Returns a new folder for nginx's files, where only this user can enter."""
    try:
        return tempfile.TemporaryDirectory(prefix="dpsgd-front-")
    except FileNotFoundError:  # no folder for temporary files can be written to
        return tempfile.TemporaryDirectory(prefix="front-", dir=settings.instance_dir)


def _unix_socket(path: str) -> socket.socket:
    """Returns a listening socket of this machine."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    # If the queue is full, a Unix socket rejects connections. Half of nginx's
    # connections are to clients.
    listener.listen(MAX_CONNECTIONS // 2)
    return listener


def listening_socket(host: str, port: int) -> socket.socket:
    """Return an open socket; ConfigError names the reason if there is none."""
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
    """Return the host of an address for a browser on this machine."""
    if host in ("0.0.0.0", "::"):
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host


def _sleep(wake: int, seconds: float) -> None:
    """Wait for a signal, at most this long."""
    if select.select([wake], [], [], seconds)[0]:
        os.read(wake, 4096)

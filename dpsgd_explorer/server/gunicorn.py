"""The web process: gunicorn, configured in code, on an open socket.

Started by ``serve`` as ``python -m dpsgd_explorer.server.gunicorn SOCKET``.  nginx
handles slow clients, see ``front``.
"""

from __future__ import annotations

import errno
import gc
import json
import os
import re
import signal
import socket
import sys
import time
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from threading import Thread, Timer
from typing import TYPE_CHECKING, Any

from gunicorn import sock, util
from gunicorn.app.base import BaseApplication
from gunicorn.glogging import Logger
from gunicorn.http import wsgi
from gunicorn.workers.gthread import ThreadWorker

from dpsgd_explorer import logs
from dpsgd_explorer.machine import THREAD_VARIABLES
from dpsgd_explorer.runs.worker.parent_watch import ParentWatch
from dpsgd_explorer.runs.worker.prctl import die_with_parent
from dpsgd_explorer.settings import Settings

if TYPE_CHECKING:
    from flask import Flask

# Time that open event streams have at shutdown; their pages reconnect.
GRACEFUL_SECONDS = 2
# Delay of work ahead after the start, so that waiting requests are answered first.
QUIET_SECONDS = 20
MEMORY_FOLDER = Path("/dev/shm")
MAX_REQUEST_LINE_BYTES = 8190  # bytes, the maximum of gunicorn
# Pause of the accepting loop where no file descriptor is free.
FULL_PAUSE_SECONDS = 0.05
# Bytes that are read and dropped before a connection is closed.
MAX_DRAINED_BYTES = 65536
NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)


class JsonLogger(Logger):  # type: ignore[misc]  # gunicorn has no types
    """Writes gunicorn's log as JSON."""

    def setup(self, cfg: Any) -> None:
        super().setup(cfg)
        for handler in self.error_log.handlers:
            handler.setFormatter(logs.JsonFormatter())


class WebWorker(ThreadWorker):  # type: ignore[misc]  # gunicorn has no types
    """Threads of gunicorn, which wait while no file descriptor is free."""

    def accept(self, listener: socket.socket) -> None:
        """Accepts a connection; without a free descriptor it stays in the backlog."""
        try:
            super().accept(listener)
        except OSError as error:
            if error.errno not in NO_DESCRIPTOR:
                raise
            time.sleep(FULL_PAUSE_SECONDS)


class WebServer(BaseApplication):  # type: ignore[misc]  # gunicorn has no types
    """One process with many threads: each open event stream occupies one.

    Args:
        settings: Settings of the installation.
        socket_number: File descriptor of a listening socket.
    """

    def __init__(self, settings: Settings, socket_number: int) -> None:
        self._settings = settings
        self._socket_number = socket_number
        self._logs_json = settings.operation.log_format == "json"
        super().__init__()

    def load_config(self) -> None:
        for name, value in self._options().items():
            self.cfg.set(name, value)

    def load(self) -> Flask:
        gc.disable()  # loading creates almost no garbage
        # Imported here because gunicorn's master process does not need the application.
        from dpsgd_explorer.web import create_app
        from dpsgd_explorer.web.hub.chapters.readings import compute_ahead

        app = create_app(self._settings)
        gc.freeze()  # loaded modules are never garbage: later collections skip them
        gc.enable()
        chapters = Timer(QUIET_SECONDS, compute_ahead, args=(app,))
        chapters.daemon = True
        chapters.start()
        Thread(target=load_ahead, daemon=True).start()
        return app

    def _options(self) -> dict[str, Any]:
        return {
            "bind": f"fd://{self._socket_number}",
            "worker_class": WebWorker,
            "workers": 1,
            "threads": self._settings.web_threads,
            "graceful_timeout": GRACEFUL_SECONDS,
            "loglevel": "warning",
            "accesslog": None,
            **({"logger_class": JsonLogger} if self._logs_json else {}),
            "post_fork": lambda _arbiter, _worker: die_with_parent(),
            "preload_app": False,  # the worker's threads start in the worker
            "control_socket_disable": True,
            "limit_request_line": MAX_REQUEST_LINE_BYTES,
            # Headers of a proxy are read in web.create_app only.
            "forwarder_headers": "",
            "secure_scheme_headers": {},
            "worker_tmp_dir": str(self._heartbeat_folder()),
        }

    def _heartbeat_folder(self) -> Path:
        """Returns a writable folder, in memory if possible."""
        if os.access(MEMORY_FOLDER, os.W_OK):
            return MEMORY_FOLDER
        return self._settings.instance_dir


def load_ahead() -> None:
    """Imports slow modules in advance, so that no request waits for them."""
    for name in ("dpsgd_explorer.runs.queue", "scipy.special", "scipy.optimize"):
        import_module(name)


def write_error(client: socket.socket, status: int, reason: str, message: str) -> None:
    """Answers a malformed HTTP request with JSON, like other errors of the API."""
    from dpsgd_explorer.web.http.headers import SECURITY_HEADERS

    code = re.sub(r"\W+", "_", reason.lower())
    body = json.dumps({"error": {"code": code, "message": message}})
    headers = {
        "Connection": "close",
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        **SECURITY_HEADERS,
    }
    lines = [f"{name}: {value}\r\n" for name, value in headers.items()]
    head = f"HTTP/1.1 {status} {reason}\r\n{''.join(lines)}\r\n"
    util.write_nonblock(client, (head + body).encode("ascii"))


def close_at_once(client: socket.socket, *_: object, **__: object) -> None:
    """Closes a connection without waiting for the client.

    gunicorn's own function waits up to 2 s, on the loop that accepts connections.
    """
    with suppress(OSError):
        client.shutdown(socket.SHUT_WR)
        client.setblocking(False)
        # Unread bytes would make the kernel discard the end of the answer.
        client.recv(MAX_DRAINED_BYTES)
    client.close()


def keep_socket_file(listeners: list[Any], _unlink: bool = True) -> None:
    """Closes listeners; the file of a Unix socket belongs to the supervisor."""
    for listener in listeners:
        listener.close()


def use_one_thread_per_product() -> None:
    """Makes numpy compute products in the calling thread; called before its import.

    The arrays of the web server are small, and numpy's additional threads would spin on
    cores that other requests and training processes need.
    """
    os.environ |= dict.fromkeys(THREAD_VARIABLES, "1")


def main(arguments: list[str]) -> None:
    """Serves until SIGTERM, or until the supervisor has ended."""
    die_with_parent()
    use_one_thread_per_product()
    # gunicorn has no setting for any of these.
    util.write_error = write_error
    util.close_graceful = close_at_once
    sock.close_sockets = keep_socket_file
    wsgi.SERVER = "dpsgd-explorer"
    settings = Settings.from_environment()
    if settings.operation.log_format != "text":  # Flask and gunicorn write text anyway
        logs.configure(settings.operation.log_format)
    server = WebServer(settings, int(arguments[0]))
    ParentWatch(at_end=lambda: os.kill(os.getpid(), signal.SIGTERM))
    server.run()


if __name__ == "__main__":
    main(sys.argv[1:])

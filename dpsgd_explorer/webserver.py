"""The web process: gunicorn, set up in code, on a socket that is open already.

Started by ``serve`` as ``python -m dpsgd_explorer.webserver SOCKET``.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gunicorn.app.base import BaseApplication

from dpsgd_explorer.intake_worker import IntakeWorker
from dpsgd_explorer.runs.lifeline import Lifeline
from dpsgd_explorer.settings import Settings

if TYPE_CHECKING:
    from flask import Flask

# Open streams end after this; the pages they belong to connect again.
GRACEFUL_SECONDS = 2
MEMORY_FOLDER = Path("/dev/shm")


class WebServer(BaseApplication):  # type: ignore[misc]  # gunicorn has no types
    """One process of many threads: an open event stream holds a thread."""

    def __init__(self, settings: Settings, socket_number: int) -> None:
        """Take over a listening socket by its file descriptor."""
        self._settings = settings
        self._socket_number = socket_number
        super().__init__()

    def load_config(self) -> None:
        for name, value in self._options().items():
            self.cfg.set(name, value)

    def load(self) -> Flask:
        # Here: gunicorn's master process needs none of it.
        from dpsgd_explorer.web import create_app

        return create_app(self._settings)

    def _options(self) -> dict[str, Any]:
        return {
            "bind": f"fd://{self._socket_number}",
            "worker_class": IntakeWorker,
            "workers": 1,
            "threads": self._settings.web_threads,
            "graceful_timeout": GRACEFUL_SECONDS,
            "loglevel": "warning",
            "accesslog": None,
            "preload_app": False,  # the worker's threads start in the worker
            "control_socket_disable": True,
            # What a proxy adds is read in one place, web.create_app.
            "forwarder_headers": "",
            "secure_scheme_headers": {},
            "worker_tmp_dir": str(self._heartbeat_folder()),
        }

    def _heartbeat_folder(self) -> Path:
        """Return a folder we may write to, in memory if there is one."""
        if os.access(MEMORY_FOLDER, os.W_OK):
            return MEMORY_FOLDER
        return self._settings.instance_dir


def main(arguments: list[str]) -> None:
    """Serve until SIGTERM, or until the process that started us is gone."""
    server = WebServer(Settings.from_environment(), int(arguments[0]))
    Lifeline(at_end=lambda: os.kill(os.getpid(), signal.SIGTERM))
    server.run()


if __name__ == "__main__":
    main(sys.argv[1:])

"""How many event streams may be open: each holds a thread of the web server."""

from __future__ import annotations

import threading

from dpsgd_explorer.web.errors import HttpError

SPARE_THREADS = 32
RETRY_SECONDS = 5


class Listeners:
    """Counts open streams; past the cap a page polls the same log instead."""

    def __init__(self, web_threads: int) -> None:
        """Keep ``SPARE_THREADS`` of the server's threads for everything else."""
        self.cap = max(web_threads - SPARE_THREADS, 0)
        self._free = threading.BoundedSemaphore(self.cap) if self.cap else None

    def enter(self) -> None:
        """Take a place; HttpError 503 if there is none."""
        if self._free is None or not self._free.acquire(blocking=False):
            raise HttpError(
                503,
                "too_many_listeners",
                f"{self.cap} pages listen already, the most this server holds; "
                "poll events.json?after= instead, or try again later.",
                retry_after=RETRY_SECONDS,
            )

    def leave(self) -> None:
        """Give the place back."""
        assert self._free is not None
        self._free.release()

"""Limits on open event streams; each occupies a thread of the web server."""

from __future__ import annotations

import threading
from collections import Counter

from dpsgd_explorer.web.http.errors import HttpError

SPARE_THREADS = 32
RETRY_SECONDS = 5
#: A browser opens six connections to a site; four streams leave two for other requests.
STREAMS_A_VISITOR = 4


class Listeners:
    """Counter of open streams; a page above the limit polls the log instead."""

    def __init__(self, web_threads: int) -> None:
        """Reserve ``SPARE_THREADS`` of the server's threads for other requests."""
        self.cap = max(web_threads - SPARE_THREADS, 0)
        # Clients without a cookie share a limit, so other visitors can have streams.
        self.unnamed_cap = (self.cap + 1) // 2
        self._lock = threading.Lock()
        self._open: Counter[str] = Counter()

    @property
    def now(self) -> int:
        """Number of open streams."""
        with self._lock:
            return self._open.total()

    def enter(self, visitor: str) -> None:
        """Count a stream of this visitor.

        Clients without a name ("") share half of the streams.

        Raises:
            HttpError: 503, the visitor or the server has reached the maximum.
        """
        with self._lock:
            if visitor and self._open[visitor] >= STREAMS_A_VISITOR:
                raise _too_many(
                    f"{STREAMS_A_VISITOR} event streams of this visitor are open, the "
                    "maximum"
                )
            if not visitor and self._open[visitor] >= self.unnamed_cap:
                raise _too_many(
                    f"{self.unnamed_cap} event streams without a cookie are open, the "
                    "maximum"
                )
            if self._open.total() >= self.cap:
                raise _too_many(
                    f"{self.cap} event streams are open, the maximum of this server"
                )
            self._open[visitor] += 1

    def leave(self, visitor: str) -> None:
        """Release a stream of this visitor."""
        with self._lock:
            self._open[visitor] -= 1
            self._open += Counter()  # removes visitors without streams


def _too_many(reason: str) -> HttpError:
    return HttpError(
        503,
        "too_many_listeners",
        f"{reason}. Poll events.json?after= instead, or try again later.",
        retry_after=RETRY_SECONDS,
    )

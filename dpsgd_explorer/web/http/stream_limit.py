"""How many event streams may be open: each holds a thread of the web server."""

from __future__ import annotations

import threading
from collections import Counter

from dpsgd_explorer.web.http.errors import HttpError

SPARE_THREADS = 32
RETRY_SECONDS = 5
#: A browser opens six connections to a site: four streams leave it two for the rest.
STREAMS_A_VISITOR = 4


class Listeners:
    """Counts open streams; past a cap a page polls the same log instead."""

    def __init__(self, web_threads: int) -> None:
        """Keep ``SPARE_THREADS`` of the server's threads for everything else."""
        self.cap = max(web_threads - SPARE_THREADS, 0)
        # Clients that cannot be told apart leave as many streams to the others.
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

        All clients without a name ("") together have at most half of the streams.

        Raises:
            HttpError: 503, the visitor or the server has as many as it may.
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
        """Give a stream's place back."""
        with self._lock:
            self._open[visitor] -= 1
            self._open += Counter()  # forgets who has none


def _too_many(reason: str) -> HttpError:
    return HttpError(
        503,
        "too_many_listeners",
        f"{reason}. Poll events.json?after= instead, or try again later.",
        retry_after=RETRY_SECONDS,
    )

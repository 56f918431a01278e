"""Connections to PostgreSQL with a time limit for answers.

If a server process hangs, the kernel still acknowledges every packet.  If the network
is cut, the kernel retries for minutes.  Neither the timeouts of PostgreSQL nor of TCP
end such a wait, so the client measures the time itself.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any, Self

import psycopg


class AnsweringConnection(psycopg.Connection[Any]):
    """A connection that is closed if the server is silent for too long.

    Attributes:
        answer_s: Maximum number of seconds before the first byte of an answer, and
            between two bytes; None sets no limit.
    """

    answer_s: float | None = None

    @classmethod
    def limited(cls, answer_s: float | None, *args: Any, **options: Any) -> Self:
        """Connects like ``psycopg.connect``, with a time limit for answers."""
        connection = cls.connect(*args, **options)
        connection.answer_s = answer_s
        return connection

    def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
        """Waits for the server, see ``psycopg.Connection.wait``.

        Raises:
            psycopg.OperationalError: The time limit was exceeded, and the connection is
                closed.
        """
        if self.answer_s is not None:
            gen = self._bounded(gen, self.answer_s)
        return super().wait(gen, *args, **options)

    def _bounded(self, gen: Any, answer_s: float) -> Generator[Any, Any, Any]:
        """Runs psycopg's generator until its end or the time limit."""
        try:
            state = next(gen)
            answered_at = time.monotonic()
            while True:
                ready = yield state
                now = time.monotonic()
                if ready:
                    answered_at = now
                elif now - answered_at >= answer_s:
                    self.pgconn.finish()
                    raise psycopg.OperationalError(
                        f"the server did not answer for {answer_s:g} seconds"
                    )
                state = gen.send(ready)
        except StopIteration as end:
            return end.value

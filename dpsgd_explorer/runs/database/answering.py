"""Connections to PostgreSQL that wait for an answer no longer than some seconds.

A server whose process hangs still acknowledges every packet, and a cut network is
silent for as long as the kernel retries.  Neither the server's own time-outs nor those
of TCP end a wait for it, so the client counts.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any, Self

import psycopg


class AnsweringConnection(psycopg.Connection[Any]):
    """A connection that breaks when the server is silent for too long.

    Attributes:
        answer_s: Seconds that a statement may take before its first byte, and between
            two bytes; None: no limit.
    """

    answer_s: float | None = None

    @classmethod
    def limited(cls, answer_s: float | None, *args: Any, **options: Any) -> Self:
        """Connect as ``psycopg.connect`` does; return a connection with this limit."""
        connection = cls.connect(*args, **options)
        connection.answer_s = answer_s
        return connection

    def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
        """Wait for the server, see ``psycopg.Connection.wait``.

        Raises:
            psycopg.OperationalError: the server was silent; the connection is closed.
        """
        if self.answer_s is not None:
            gen = self._bounded(gen, self.answer_s)
        return super().wait(gen, *args, **options)

    def _bounded(self, gen: Any, answer_s: float) -> Generator[Any, Any, Any]:
        """Pass on what a generator of psycopg waits for, until its time is over."""
        try:
            state = next(gen)
            heard = time.monotonic()
            while True:
                ready = yield state
                now = time.monotonic()
                if ready:
                    heard = now
                elif now - heard >= answer_s:
                    self.pgconn.finish()
                    raise psycopg.OperationalError(
                        f"the server did not answer for {answer_s:g} seconds"
                    )
                state = gen.send(ready)
        except StopIteration as end:
            return end.value

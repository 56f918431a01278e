"""Detection of the parent's end, even if the parent is killed.

The parent holds the other end of this process's standard input for as long as it lives;
the operating system closes it when the parent dies.  On Linux the kernel also kills
this process (``prctl.die_with_parent``), which works even while a library blocks every
thread.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable

STDIN = 0
CHUNK = 4096


class ParentWatch:
    """Reads standard input: at most one line, then the end of file."""

    def __init__(self, at_end: Callable[[], None]) -> None:
        """Starts a thread that calls ``at_end`` at the end of file."""
        self._at_end = at_end
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._watch, name="parent watch", daemon=True).start()

    @property
    def has_line(self) -> bool:
        """True if a line has arrived."""
        return not self._lines.empty()

    def first_line(self) -> str:
        """Waits for the first line and returns it."""
        return self._lines.get()

    def _watch(self) -> None:
        # sys.stdin would hold the lock of its buffer here, which aborts the interpreter
        # at exit.
        text = b""
        while chunk := os.read(STDIN, CHUNK):
            text += chunk
            *lines, text = text.split(b"\n")
            for line in lines:
                self._lines.put(line.decode())
        self._at_end()

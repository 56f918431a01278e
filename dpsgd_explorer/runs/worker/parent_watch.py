"""A process that ends with the one that started it, even if that is killed.

The parent holds the other end of our standard input and never closes it while it
lives; the operating system does when it dies.  Where the kernel can kill us by itself
(``prctl.die_with_parent``), it does so even while a library keeps every thread waiting.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable

STDIN = 0
CHUNK = 4096


class ParentWatch:
    """Reads standard input: at most one line, then the end of the file."""

    def __init__(self, at_end: Callable[[], None]) -> None:
        """Watch from now on; ``at_end`` is called in the watching thread."""
        self._at_end = at_end
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._watch, name="parent watch", daemon=True).start()

    @property
    def has_line(self) -> bool:
        """Whether a line can be read."""
        return not self._lines.empty()

    def first_line(self) -> str:
        """Wait for the first line and return it."""
        return self._lines.get()

    def _watch(self) -> None:
        # Not sys.stdin: its buffer's lock, held here, aborts the interpreter at exit.
        text = b""
        while chunk := os.read(STDIN, CHUNK):
            text += chunk
            *lines, text = text.split(b"\n")
            for line in lines:
                self._lines.put(line.decode())
        self._at_end()

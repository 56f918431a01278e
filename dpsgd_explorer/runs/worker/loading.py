"""How a process that loads torch and data says that it has."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import IO

STARTED = time.monotonic()
# A process writes this word, then the seconds that loading took, in a line.
WARM = b"warm"
STDOUT, STDERR = 1, 2


def report_warm() -> None:
    """Write the line on standard output; what is written later goes to stderr."""
    with suppress(BrokenPipeError):
        os.write(STDOUT, WARM + f" {time.monotonic() - STARTED:.1f}\n".encode())
    os.dup2(STDERR, STDOUT)


class Loading:
    """The other end: what a process has reported.

    Args:
        output: Its standard output.
    """

    def __init__(self, output: IO[bytes]) -> None:
        os.set_blocking(output.fileno(), False)
        self._output = output
        self._seconds: float | None = None

    def seconds(self) -> float | None:
        """Return the seconds that it took; None as long as it loads."""
        if self._seconds is None and not self._output.closed:
            line = (self._output.read() or b"").split()
            if line[:1] == [WARM]:
                self._seconds = float(line[1])
        return self._seconds

    def close(self) -> None:
        """Close our end; nothing more is heard."""
        self._output.close()

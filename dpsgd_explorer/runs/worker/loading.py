"""Report of a process that it has loaded torch and data."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import IO

STARTED = time.monotonic()
# First word of the report; the second word is the duration of loading in seconds.
WARM = b"warm"
STDOUT, STDERR = 1, 2


def report_warm() -> None:
    """Writes the report to standard output, and sends later output to stderr."""
    with suppress(BrokenPipeError):
        os.write(STDOUT, WARM + f" {time.monotonic() - STARTED:.1f}\n".encode())
    os.dup2(STDERR, STDOUT)


class Loading:
    """Reader of a process's report.

    Args:
        output: Standard output of the process.
    """

    def __init__(self, output: IO[bytes]) -> None:
        os.set_blocking(output.fileno(), False)
        self._output = output
        self._seconds: float | None = None

    def seconds(self) -> float | None:
        """Returns the duration of loading; None while the process loads."""
        if self._seconds is None and not self._output.closed:
            line = (self._output.read() or b"").split()
            if line[:1] == [WARM]:
                self._seconds = float(line[1])
        return self._seconds

    def close(self) -> None:
        """Closes the pipe."""
        self._output.close()

"""Heartbeats of the workers: one empty file per worker, touched at each beat.

Its time is that of the machine's monotonic clock, which cannot be set.  A file without
content needs no room on a full disk.
"""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

FOLDER = "workers"
# A worker that has not been seen for longer than that hangs: what it waits for at most
# is the database, twice.
HUNG_SECONDS = 30.0
logger = logging.getLogger(__name__)


class Heartbeat:
    """The sign of this process."""

    def __init__(self, instance_dir: Path) -> None:
        """Do nothing yet."""
        self._file = file_of(instance_dir, os.getpid())

    def beat(self) -> None:
        """Be seen now."""
        now = time.monotonic_ns()
        try:
            # Never touched once it is there: that would set the other clock's time.
            if not self._file.exists():
                self._file.parent.mkdir(exist_ok=True)
                self._file.touch()
            os.utime(self._file, ns=(now, now))
        except OSError as error:
            logger.warning("the heartbeat could not be written: %s", error)

    def end(self) -> None:
        """Be no more looked for."""
        forget(self._file)


def file_of(instance_dir: Path, pid: int) -> Path:
    """Return the file of a process."""
    return instance_dir / FOLDER / str(pid)


def forget(file: Path) -> None:
    """Remove the file of a process that has ended, if it is there."""
    file.unlink(missing_ok=True)


def seconds_since(file: Path) -> float | None:
    """Return how long ago a process was seen; None: not since the machine's start."""
    try:
        passed = time.monotonic() - file.stat().st_mtime_ns / 1e9
    except OSError:
        return None
    return passed if passed >= 0 else None

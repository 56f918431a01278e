"""Heartbeats of the workers: one empty file per worker, touched at each beat.

The modification time of the file is set to the machine's monotonic clock, which cannot
be changed.  An empty file needs no space on a full disk.
"""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

FOLDER = "workers"
# Age of the last heartbeat after which a worker counts as hung.  A healthy worker waits
# at most for the database, twice.
HUNG_SECONDS = 30.0
# Age of a worker without any heartbeat after which it counts as hung.  On a loaded
# machine, importing the program alone can take longer than HUNG_SECONDS.
MAX_START_SECONDS = 300.0
logger = logging.getLogger(__name__)


class Heartbeat:
    """Heartbeat of this process, in a file of the instance folder."""

    def __init__(self, instance_dir: Path) -> None:
        self._file = file_of(instance_dir, os.getpid())

    def beat(self) -> None:
        """Sets the time of the file to now."""
        now = time.monotonic_ns()
        try:
            # An existing file is not touched: this would set the time to another clock.
            if not self._file.exists():
                self._file.parent.mkdir(exist_ok=True)
                self._file.touch()
            os.utime(self._file, ns=(now, now))
        except OSError as error:
            logger.warning("the heartbeat could not be written: %s", error)

    def end(self) -> None:
        """Removes the file."""
        forget(self._file)


def file_of(instance_dir: Path, pid: int) -> Path:
    """Returns the heartbeat file of a process."""
    return instance_dir / FOLDER / str(pid)


def forget(file: Path) -> None:
    """Removes the file of an ended process, if it exists."""
    file.unlink(missing_ok=True)


def seconds_since(file: Path) -> float | None:
    """Returns the age of a heartbeat; None without one since the machine's start."""
    try:
        # Read before the clock: a heartbeat between the two would be in the future.
        beaten_at = file.stat().st_mtime_ns / 1e9
    except OSError:
        return None
    passed = time.monotonic() - beaten_at
    return passed if passed >= 0 else None

"""Limits that the operating system enforces on a training process."""

from __future__ import annotations

import os
import re
import resource
import time
from pathlib import Path

NICENESS = 10
# Added once a run has shown its first points: one that starts goes before it.
LATER_NICENESS = 5
OPEN_FILES = 1024
# Far above the database and the feature cache; stops a file that grows for ever.
FILE_BYTES = 64 * 2**30
# Most that work ahead of a run may hold in addition to the run: the images take 188 MB.
IDLE_BYTES = 320 * 2**20
# Time for shutting down after the wall-clock limit.
CPU_MARGIN_SECONDS = 60


def apply(*, memory_mib: int, seconds: int, threads: int) -> None:
    """Limit this process; call before torch is imported.

    The memory limit is on private writable memory (RLIMIT_DATA): libraries and
    memory-mapped data sets are not counted, as they would be by RLIMIT_AS.  It can be
    raised by ``allow`` for what the process held before its run.
    """
    cpu_seconds = seconds * threads + CPU_MARGIN_SECONDS
    most = memory_mib * 2**20
    _lower(resource.RLIMIT_DATA, most, most + IDLE_BYTES)
    _lower(resource.RLIMIT_NOFILE, OPEN_FILES)
    _lower(resource.RLIMIT_FSIZE, FILE_BYTES)
    _lower(resource.RLIMIT_CORE, 0)
    # The signal at the lower limit names the reason; SIGKILL at the upper does not.
    _lower(resource.RLIMIT_CPU, cpu_seconds, cpu_seconds + CPU_MARGIN_SECONDS)


def lower_priority() -> None:
    """Let the web server go before this process; call once torch is loaded.

    Runs that lost their worker wait for the loading, so that this goes before others.
    """
    os.nice(NICENESS)


class Precedence:
    """Gives the first seconds of later runs precedence over the rest of this one."""

    def __init__(self, seconds: float) -> None:
        """Keep this process's priority for so many seconds of processor time."""
        self._end: float | None = time.process_time() + seconds

    def tend(self) -> None:
        """Lower the priority, once, when the time is over; call again and again."""
        if self._end is not None and time.process_time() >= self._end:
            self._end = None
            os.nice(LATER_NICENESS)


def allow(held: int) -> None:
    """Raise the memory limit by bytes that this process held before its run."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if soft != resource.RLIM_INFINITY and hard != resource.RLIM_INFINITY:
        raised = min(soft + max(0, held), hard)
        resource.setrlimit(resource.RLIMIT_DATA, (raised, hard))


def data_bytes(pid: int | str = "self") -> int:
    """Return the private writable memory of a process, which its limit is on.

    Returns:
        Bytes; 0 where the system does not say.
    """
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = re.search(r"^VmData:\s+(\d+) kB$", status, re.MULTILINE)
    return 1024 * int(found[1]) if found else 0


def _lower(limit: int, soft: int, hard: int | None = None) -> None:
    present = resource.getrlimit(limit)[1]
    most = float("inf") if present == resource.RLIM_INFINITY else present
    lowered = [int(min(value, most)) for value in (soft, hard or soft)]
    resource.setrlimit(limit, (lowered[0], lowered[1]))

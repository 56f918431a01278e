"""Limits that the operating system enforces on a training process."""

from __future__ import annotations

import os
import re
import resource
import threading
import time
from contextlib import suppress
from pathlib import Path

NICENESS = 10
# Added once a run has shown its first points, so that starting runs get priority.
LATER_NICENESS = 5
IDLE_NICENESS = 19
OPEN_FILES = 1024
# Far above the database and the feature cache; stops a file that grows without end.
FILE_BYTES = 64 * 2**30
# Maximum memory of idle work in addition to the memory of the run; images take 188 MB.
IDLE_BYTES = 320 * 2**20
# Time for shutting down after the wall-clock limit.
CPU_MARGIN_SECONDS = 60


def apply(*, memory_mib: int, seconds: int, threads: int) -> None:
    """Sets the limits of this process; called before torch is imported.

    The memory limit is on private writable memory (RLIMIT_DATA).  RLIMIT_AS would also
    count libraries and memory-mapped data sets.  ``allow`` raises the limit by the
    memory that the process held before its run.

    Args:
        memory_mib: Maximum memory of a run, in MiB.
        seconds: Maximum duration of a run.
        threads: Number of threads of a run.
    """
    cpu_seconds = seconds * threads + CPU_MARGIN_SECONDS
    most = memory_mib * 2**20
    _lower(resource.RLIMIT_DATA, most, most + IDLE_BYTES)
    _lower(resource.RLIMIT_NOFILE, OPEN_FILES)
    _lower(resource.RLIMIT_FSIZE, FILE_BYTES)
    _lower(resource.RLIMIT_CORE, 0)
    # The soft limit sends SIGXCPU, which names the reason; the hard limit SIGKILL.
    _lower(resource.RLIMIT_CPU, cpu_seconds, cpu_seconds + CPU_MARGIN_SECONDS)


def lower_priority() -> None:
    """Gives the web server priority over this process; called once torch is loaded.

    Torch is loaded at normal priority, because runs that lost their worker wait for it.
    """
    os.nice(NICENESS)


def lower_thread_priority() -> None:
    """Gives the calling thread the lowest priority of the machine."""
    with suppress(OSError):  # on systems without a priority per thread
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), IDLE_NICENESS)


class Precedence:
    """Lowers the priority of a run after its first seconds, in favor of later runs.

    Args:
        seconds: Processor time after which the priority is lowered.
    """

    def __init__(self, seconds: float) -> None:
        self._end: float | None = time.process_time() + seconds

    def tend(self) -> None:
        """Lowers the priority once the time is over; called periodically."""
        if self._end is not None and time.process_time() >= self._end:
            self._end = None
            os.nice(LATER_NICENESS)


def allow(held: int) -> None:
    """Raises the memory limit by bytes that this process held before its run."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if soft != resource.RLIM_INFINITY and hard != resource.RLIM_INFINITY:
        raised = min(soft + max(0, held), hard)
        resource.setrlimit(resource.RLIMIT_DATA, (raised, hard))


def data_bytes(pid: int | str = "self") -> int:
    """Returns the private writable memory of a process, which the limit applies to.

    Returns:
        Number of bytes; 0 on systems without /proc.
    """
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    match = re.search(r"^VmData:\s+(\d+) kB$", status, re.MULTILINE)
    return 1024 * int(match[1]) if match else 0


def _lower(limit: int, soft: int, hard: int | None = None) -> None:
    present = resource.getrlimit(limit)[1]
    most = float("inf") if present == resource.RLIM_INFINITY else present
    lowered = [int(min(value, most)) for value in (soft, hard or soft)]
    resource.setrlimit(limit, (lowered[0], lowered[1]))

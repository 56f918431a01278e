"""The cores and the memory of this machine, within the limits of the control group.

A container sees the cores and the memory of its host; its share is in the files of its
control group (version 2, then version 1).
"""

from __future__ import annotations

import math
import os
import re
from pathlib import Path

CONTROL_GROUP = Path("/sys/fs/cgroup")
SYSTEM_MEMORY = Path("/proc/meminfo")
#: Files of the limit and of the use, and the pattern of the number of bytes of cached
#: files that the kernel can drop.
GROUP_MEMORY = (
    ("memory.max", "memory.current", r"^inactive_file (\d+)"),
    (
        "memory/memory.limit_in_bytes",
        "memory/memory.usage_in_bytes",
        r"^total_inactive_file (\d+)",
    ),
)
OOM_COUNTERS = ("memory.events", "memory/memory.oom_control")
PROCESSOR_QUOTA = "cpu.max"  # microseconds per period, or "max"
OLD_PROCESSOR_QUOTA = ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")

#: Variables for the threads of matrix products: OpenBLAS (numpy, scipy), torch, MKL.
THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")

#: Memory of a training process, in MiB: measured with the images of MNIST.
PROCESS_MIB = 900
#: Memory of everything else, in MiB: supervisor, web server, worker, system.
REST_MIB = 800
#: Runs that share a core on a public site: each gets a third of the core, and shows a
#: first point before another run has ended.
RUNS_PER_CORE = 3


def runs_at_a_time(threads: int, *, for_many: bool) -> int:
    """Returns the number of runs that this machine trains at a time, at least 1.

    Each run needs memory for two processes: the process that trains, and a warm process
    for the next run.

    Args:
        threads: Threads of one run.
        for_many: If True, runs share cores, so that more visitors can start together.
    """
    per_core = RUNS_PER_CORE if for_many else 1
    by_cores = int(per_core * cores() / threads)
    memory = memory_mib()
    by_memory = (
        by_cores if memory is None else int((memory - REST_MIB) / (2 * PROCESS_MIB))
    )
    return max(1, min(by_cores, by_memory))


def cores() -> float:
    """Returns the number of cores that this process may keep busy."""
    affinity = getattr(os, "sched_getaffinity", None)
    number = float(len(affinity(0)) if affinity else os.cpu_count() or 1)
    return min(number, _quota() or number)


def memory_mib() -> float | None:
    """Returns the memory in MiB that all processes may use; None if it is unknown."""
    total = _number(SYSTEM_MEMORY, r"^MemTotal: *(\d+) kB")
    limits = [_number(CONTROL_GROUP / name, r"^(\d+)$") for name, _, _ in GROUP_MEMORY]
    sizes = [limit for limit in limits if limit is not None]
    if total is not None:
        sizes.append(total * 1024)
    return min(sizes) / 2**20 if sizes else None


def oom_kills() -> int:
    """Returns the number of out-of-memory kills in this process's control group."""
    counts = (
        _number(CONTROL_GROUP / name, r"^oom_kill (\d+)") for name in OOM_COUNTERS
    )
    return next((count for count in counts if count is not None), 0)


def is_busy() -> bool:
    """Returns True if more threads want to run than the machine has cores.

    Both numbers are of the whole machine, even in a container that has a part of it.
    """
    wanted, _, _ = os.getloadavg()
    return wanted > (os.cpu_count() or 1)


def free_memory_mib() -> float:
    """Returns the free memory in MiB of the machine or of the control group."""
    in_machine = _number(SYSTEM_MEMORY, r"^MemAvailable: *(\d+) kB")
    free = [math.inf if in_machine is None else in_machine * 1024]
    for limit_file, use_file, droppable in GROUP_MEMORY:
        limit = _number(CONTROL_GROUP / limit_file, r"^(\d+)$")
        use = _number(CONTROL_GROUP / use_file, r"^(\d+)$")
        if limit is not None and use is not None:
            statistics = (CONTROL_GROUP / use_file).with_name("memory.stat")
            free.append(limit - use + (_number(statistics, droppable) or 0))
    return min(free) / 2**20


def _quota() -> float | None:
    """Returns the number of cores that the control group may use; None if unlimited."""
    text = _text(CONTROL_GROUP / PROCESSOR_QUOTA)
    if text is None:
        parts = [_text(CONTROL_GROUP / name) for name in OLD_PROCESSOR_QUOTA]
        text = " ".join(part.strip() for part in parts if part)
    match = re.match(r"(\d+) (\d+)", text)
    if match is None or int(match[2]) == 0:
        return None
    return int(match[1]) / int(match[2]) or None


def _number(file: Path, pattern: str) -> int | None:
    match = re.search(pattern, _text(file) or "", re.MULTILINE)
    return int(match.group(1)) if match else None


def _text(file: Path) -> str | None:
    try:
        return file.read_text()
    except OSError:
        return None

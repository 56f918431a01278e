"""Names of processes that hold runs; other processes use them to detect an end.

A process number is reused after the process ends, in other containers, and after a
restart of the machine.  The name therefore contains the ids of boot and process
namespace, the process number and the start time.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

PROCESSES = Path("/proc")
ENDED = frozenset("ZX")


@cache
def own_name() -> str:
    """Returns the name of this process; "" on systems without /proc."""
    started = _started(os.getpid())
    return "" if started is None else f"{_machine()} {os.getpid()} {started}"


def is_gone(name: str | None, *, on_this_machine: bool = True) -> bool:
    """Returns True if the process has certainly ended; False if it is not visible.

    Args:
        name: Name of the process.
        on_this_machine: If True, the process can only have been on this machine,
            perhaps before a restart.
    """
    if not name or not own_name():
        return False
    boot, namespace, pid, started = name.split()
    here = _machine().split()
    if boot != here[0]:
        return on_this_machine
    return namespace == here[1] and _started(int(pid)) != int(started)


@cache
def _machine() -> str:
    """Returns the ids of the machine's boot and of this process's namespace."""
    boot = (PROCESSES / "sys/kernel/random/boot_id").read_text().strip()
    return f"{boot} {(PROCESSES / 'self/ns/pid').stat().st_ino}"


def _started(pid: int) -> int | None:
    """Returns a process's start in clock ticks since boot; None if it has ended."""
    try:
        text = (PROCESSES / str(pid) / "stat").read_text()
    except OSError:
        return None
    state, *rest = text.rpartition(")")[2].split()
    return None if state in ENDED else int(rest[18])

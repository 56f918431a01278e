"""The name of a process that holds runs; another process checks by it whether it ended.

A process number is reused after its process ends, in another container, and after a
restart of the machine.  The name therefore holds boot, namespace, number and start.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

PROCESSES = Path("/proc")
ENDED = frozenset("ZX")


@cache
def own_name() -> str:
    """Return the name of this process; "" where the system gives none."""
    started = _started(os.getpid())
    return "" if started is None else f"{_machine()} {os.getpid()} {started}"


def is_gone(name: str | None, *, on_this_machine: bool = True) -> bool:
    """Whether the process has certainly ended; False for one that we cannot see.

    Args:
        name: Of the process.
        on_this_machine: It can only have been on this one, be it before a restart.
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
    """Return the ids of the machine's boot and of our process namespace."""
    boot = (PROCESSES / "sys/kernel/random/boot_id").read_text().strip()
    return f"{boot} {(PROCESSES / 'self/ns/pid').stat().st_ino}"


def _started(pid: int) -> int | None:
    """Return when a process was started, by the kernel's count; None: not running."""
    try:
        text = (PROCESSES / str(pid) / "stat").read_text()
    except OSError:
        return None
    state, *rest = text.rpartition(")")[2].split()
    return None if state in ENDED else int(rest[18])

"""The name of a process that holds runs, by which another sees that it is gone.

A process number is used again after its process has ended, in another container, and
after a restart of the machine: so the name has all four.
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


def is_gone(name: str | None) -> bool:
    """The process has ended for certain; False for one that we cannot see."""
    if not name or not own_name():
        return False
    boot, namespace, pid, started = name.split()
    here = _machine().split()
    if boot != here[0]:
        return True
    return namespace == here[1] and _started(int(pid)) != int(started)


@cache
def _machine() -> str:
    """Return what the machine's present run and our process numbers are called."""
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

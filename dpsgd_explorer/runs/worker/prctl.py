"""What a process asks of Linux for itself; other systems know none of it."""

from __future__ import annotations

import ctypes
import signal
from pathlib import Path

# Of <linux/prctl.h>.
PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36
NAME_BYTES = 15


def die_with_parent() -> None:
    """Have the kernel kill this process when the thread that is its parent ends."""
    _prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))


def adopt_orphans() -> bool:
    """Become the parent of grandchildren whose parent ends; False if that cannot be."""
    return _prctl(PR_SET_CHILD_SUBREAPER, 1)


def children() -> list[int]:
    """Returns the numbers of this process's children, adopted orphans included."""
    files = Path("/proc/self/task").glob("*/children")
    return [int(number) for file in files for number in file.read_text().split()]


def set_name(name: str) -> None:
    """Set the name that the system's lists show for this process."""
    _prctl(PR_SET_NAME, ctypes.c_char_p(name.encode()[:NAME_BYTES]))


def _prctl(option: int, value: int | ctypes.c_char_p) -> bool:
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    return prctl is not None and prctl(option, value, 0, 0, 0) == 0

"""Process settings by Linux's ``prctl``; they have no effect on other systems."""

from __future__ import annotations

import ctypes
import signal
from pathlib import Path

# Constants of <linux/prctl.h>.
PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36
NAME_BYTES = 15


def die_with_parent() -> None:
    """Makes the kernel kill this process when the thread that started it ends."""
    _prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))


def adopt_orphans() -> bool:
    """Makes this process adopt orphaned grandchildren; returns False if it cannot."""
    return _prctl(PR_SET_CHILD_SUBREAPER, 1)


def children() -> list[int]:
    """Returns the numbers of this process's children, adopted orphans included."""
    files = Path("/proc/self/task").glob("*/children")
    return [int(number) for file in files for number in file.read_text().split()]


def set_name(name: str) -> None:
    """Sets the name of this process in ``ps`` and ``top``."""
    _prctl(PR_SET_NAME, ctypes.c_char_p(name.encode()[:NAME_BYTES]))


def _prctl(option: int, value: int | ctypes.c_char_p) -> bool:
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    return prctl is not None and prctl(option, value, 0, 0, 0) == 0

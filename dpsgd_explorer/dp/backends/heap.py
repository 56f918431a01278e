"""Freed memory that the C library keeps for the next step.

Every step frees and asks for the same large blocks.  glibc gives what lies at the end
of its heap back to the system, which clears each page before it hands it out again.  A
private step loses more by that than an ordinary one: it keeps inputs and backprops of
all layers until the norms are known, and frees them at once.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, reduce
from operator import or_
from threading import RLock

Settings = dict[int, int]

# Parameters of mallopt, by their numbers in the GNU C library.
TRIM_THRESHOLD, MMAP_THRESHOLD, MMAP_MAX = -1, -3, -4
#: What glibc comes to by itself once it has seen large blocks.
OWN: Settings = {TRIM_THRESHOLD: 2**26, MMAP_THRESHOLD: 2**25, MMAP_MAX: 2**16}
#: The heap does not shrink.  Blocks above 32 MiB, the most that a threshold may be, are
#: still given back.
KEPT: Settings = {TRIM_THRESHOLD: -1}
#: Those are kept, too, which takes more memory.
LARGE_KEPT: Settings = {TRIM_THRESHOLD: -1, MMAP_MAX: 0}
#: A variable of glibc's that begins so sets up malloc, and it is left so.
OF_USERS = re.compile("MALLOC_(TRIM|MMAP|TOP)_|GLIBC_TUNABLES=.*glibc.malloc")


class Heap:
    """The settings of this process's malloc, where it is glibc's."""

    def __init__(self) -> None:
        self._asked: list[Settings] = []
        self._lock = RLock()  # a finalizer may run while it is held

    def ask(self, settings: Settings) -> Callable[[], None]:
        """Apply settings until what is returned is called.

        Where several ask, a parameter is as the last of them has it.
        """
        own = dict(settings)
        with self._lock:
            self._asked.append(own)
            self._apply()

        def withdraw() -> None:
            with self._lock:
                self._asked = [each for each in self._asked if each is not own]
                self._apply()

        return withdraw

    @contextmanager
    def asked(self, settings: Settings) -> Iterator[None]:
        """Apply settings within the context."""
        withdraw = self.ask(settings)
        try:
            yield
        finally:
            withdraw()

    def _apply(self) -> None:
        functions = _glibc()
        if functions is not None:
            for parameter, value in reduce(or_, self._asked, dict(OWN)).items():
                functions.mallopt(parameter, value)

    def trim(self) -> None:
        """Give all free memory back to the system."""
        functions = _glibc()
        if functions is not None:
            functions.malloc_trim(0)


@cache
def _glibc() -> ctypes.CDLL | None:
    """Return the C library; None if it is another, or its user has set up malloc."""
    variables = (f"{name}={value}" for name, value in os.environ.items())
    if sys.platform != "linux" or any(map(OF_USERS.match, variables)):
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "mallopt") else None


#: The heap of this process.
HEAP = Heap()

"""Makes the C library keep freed memory for the next step.

Every step frees and allocates large blocks of the same sizes.  glibc returns free
memory at the end of its heap to the system, which clears each page before it is used
again.  A private step loses more time by this than an ordinary step: it keeps inputs
and backprops of all layers until the norms are computed, and then frees them together.
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

# Numbers of mallopt's parameters in the GNU C library.
TRIM_THRESHOLD, MMAP_THRESHOLD, MMAP_MAX = -1, -3, -4
#: The thresholds that glibc chooses after large blocks were freed, and its default of
#: MMAP_MAX.
GLIBC_SETTINGS: Settings = {
    TRIM_THRESHOLD: 2**26,
    MMAP_THRESHOLD: 2**25,
    MMAP_MAX: 2**16,
}
#: The heap does not shrink.  Blocks above 32 MiB, the maximum of MMAP_THRESHOLD, are
#: still returned to the system.
KEEP_FREED: Settings = {TRIM_THRESHOLD: -1}
#: Blocks above 32 MiB are kept, too, which takes more memory.
KEEP_LARGE: Settings = {TRIM_THRESHOLD: -1, MMAP_MAX: 0}
#: Environment variables that set up glibc's malloc.  If one is set, nothing is changed.
USER_SETTINGS = re.compile("MALLOC_(TRIM|MMAP|TOP)_|GLIBC_TUNABLES=.*glibc.malloc")


class Heap:
    """Settings of this process's malloc; without effect if it is not glibc's."""

    def __init__(self) -> None:
        self._applied: list[Settings] = []
        # Reentrant: a finalizer that calls ``withdraw`` may run while it is held.
        self._lock = RLock()

    def apply(self, settings: Settings) -> Callable[[], None]:
        """Applies settings, and returns a function that withdraws them.

        If several settings have one parameter, the latest that is not withdrawn holds.
        """
        entry = dict(settings)
        with self._lock:
            self._applied.append(entry)
            self._update()

        def withdraw() -> None:
            with self._lock:
                self._applied = [other for other in self._applied if other is not entry]
                self._update()

        return withdraw

    @contextmanager
    def applied(self, settings: Settings) -> Iterator[None]:
        """Applies settings inside the context."""
        withdraw = self.apply(settings)
        try:
            yield
        finally:
            withdraw()

    def _update(self) -> None:
        functions = _glibc()
        if functions is not None:
            settings = reduce(or_, self._applied, dict(GLIBC_SETTINGS))
            for parameter, value in settings.items():
                functions.mallopt(parameter, value)

    def trim(self) -> None:
        """Returns all free memory to the system."""
        functions = _glibc()
        if functions is not None:
            functions.malloc_trim(0)


@cache
def _glibc() -> ctypes.CDLL | None:
    """Returns glibc; None on other systems, or if the user has set up its malloc."""
    variables = (f"{name}={value}" for name, value in os.environ.items())
    if sys.platform != "linux" or any(map(USER_SETTINGS.match, variables)):
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "mallopt") else None


#: Settings of this process's malloc.
HEAP = Heap()

"""Runs a compiled function in several of torch's own threads at once.

Between two operations torch's threads wait in a loop that keeps their cores busy
(OpenMP's, in libgomp).  Threads of our own would share those cores with them; a
function that joins torch's does not, and starts in microseconds.  ``GOMP_parallel`` is
what a compiler makes of ``#pragma omp parallel``: part of libgomp's binary interface.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

from dpsgd_explorer.dp.kernels.library import Function


def run(function: Function, job: ctypes.Structure, threads: int) -> None:
    """Call ``function(&job)`` in threads of torch's, and wait for all.

    Args:
        function: A compiled function that takes parts of the job until none is left,
            whatever the number of threads.
        job: What the threads share.
        threads: At most as many as torch has; for each there is room in the job.
    """
    start = _start()
    if threads == 1 or start is None:
        function(ctypes.byref(job))
    else:
        work = ctypes.cast(function, ctypes.c_void_p)
        start(work, ctypes.byref(job), threads, 0)


@cache
def _start() -> Callable[..., None] | None:
    """Return libgomp's entry; None where torch came with other threads."""
    pointer, number = ctypes.c_void_p, ctypes.c_uint
    signature = ctypes.CFUNCTYPE(None, pointer, pointer, number, number)
    try:
        return signature(("GOMP_parallel", ctypes.CDLL(None)))
    except (AttributeError, OSError, TypeError):  # another libc, another runtime
        return None

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
from typing import NamedTuple

import torch

from dpsgd_explorer.dp.backends.native.library import Function

#: As in ``units.h``.
MOST_THREADS = 64


class Team(ctypes.Structure):
    """``struct team``: the threads of a job and its table of units.

    Columns are divided among the threads: each begins with its own.
    """

    _fields_ = [
        ("number", ctypes.c_void_p),
        *[(name, ctypes.c_ssize_t) for name in ("threads", "rows", "columns")],
        ("taken", ctypes.c_ssize_t * MOST_THREADS),
    ]


def team(threads: int, rows: int, columns: int) -> Team:
    """Return a team of so many threads, of which at most MOST_THREADS are taken.

    Args:
        threads: At most as many as torch has.
        rows: Of the table of units.
        columns: Of it.
    """
    openmp = _openmp() if threads > 1 else None
    if openmp is None:
        return Team(None, 1, rows, columns)
    return Team(openmp.number, min(threads, MOST_THREADS), rows, columns)


def useful_threads(units: int, work: int, many: int) -> int:
    """Return the threads that a job is worth: 1 below ``many`` multiply-adds."""
    most: int = torch.get_num_threads()
    return min(units, most, MOST_THREADS) if work >= many else 1


def run(function: Function, job: ctypes.Structure) -> None:
    """Call ``function(&job)`` in the threads of its team, and wait for all.

    Args:
        function: A compiled function that takes units of the job until none is left.
        job: What the threads share; its field ``team`` is a Team.
    """
    threads = job.team.threads
    openmp = _openmp() if threads > 1 else None
    if openmp is None:
        function(ctypes.byref(job))
    else:
        work = ctypes.cast(function, ctypes.c_void_p)
        openmp.start(work, ctypes.byref(job), threads, 0)


class _OpenMP(NamedTuple):
    """Entries of libgomp: a parallel region, and the address of a thread's number."""

    start: Callable[..., None]
    number: int | None


@cache
def _openmp() -> _OpenMP | None:
    """Return libgomp's entries; None where torch came with other threads."""
    pointer, number = ctypes.c_void_p, ctypes.c_uint
    signature = ctypes.CFUNCTYPE(None, pointer, pointer, number, number)
    try:
        library = ctypes.CDLL(None)
        of_thread = ctypes.cast(library.omp_get_thread_num, pointer)
        return _OpenMP(signature(("GOMP_parallel", library)), of_thread.value)
    except (AttributeError, OSError, TypeError):  # another libc, another runtime
        return None

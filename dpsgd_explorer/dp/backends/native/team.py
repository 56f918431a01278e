"""Runs a compiled function in torch's threads.

torch's threads belong to OpenMP (libgomp).  Between two operations they wait in a loop
that keeps their cores busy.  New threads would compete with them for these cores, but a
function in torch's threads starts in microseconds.  The entry is ``GOMP_parallel``, a
part of libgomp's binary interface: compilers translate ``#pragma omp parallel`` to it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import torch

from dpsgd_explorer.dp.backends.native.library import Function

#: Threads of a team, as in ``units.h``.
MAX_THREADS = 64


class Team(ctypes.Structure):
    """``struct team``: the threads of a job and its table of units.

    The columns of the table are divided among the threads; see ``units.h``.
    """

    _fields_ = [
        ("number", ctypes.c_void_p),
        *[(name, ctypes.c_ssize_t) for name in ("threads", "rows", "columns")],
        ("taken", ctypes.c_ssize_t * MAX_THREADS),
    ]


def team(threads: int, rows: int, columns: int) -> Team:
    """Returns a team, of one thread if torch has no OpenMP threads.

    Args:
        threads: Number of threads, at most torch's.  More than MAX_THREADS are reduced
            to MAX_THREADS.
        rows: Rows of the table of units.
        columns: Columns of the table of units.
    """
    openmp = _openmp() if threads > 1 else None
    if openmp is None:
        return Team(None, 1, rows, columns)
    return Team(openmp.number, min(threads, MAX_THREADS), rows, columns)


def useful_threads(units: int, work: int, min_work: int) -> int:
    """Returns the number of threads that make a job faster.

    Args:
        units: Units of the job.
        work: Size of the job, for example in multiply-adds.
        min_work: A smaller job gets one thread.
    """
    available: int = torch.get_num_threads()
    return min(units, available, MAX_THREADS) if work >= min_work else 1


def run(function: Function, job: ctypes.Structure) -> None:
    """Calls ``function(&job)`` in each thread of the job's team, and waits for all.

    Args:
        function: A compiled function that takes units of the job until all are taken.
        job: A struct, shared by the threads, whose field ``team`` is a Team.
    """
    threads = job.team.threads
    openmp = _openmp() if threads > 1 else None
    if openmp is None:
        function(ctypes.byref(job))
    else:
        work = ctypes.cast(function, ctypes.c_void_p)
        openmp.start(work, ctypes.byref(job), threads, 0)


class _OpenMP(NamedTuple):
    """Entries of libgomp.

    Attributes:
        start: ``GOMP_parallel``.
        number: Address of ``omp_get_thread_num``.
    """

    start: Callable[..., None]
    number: int | None


@cache
def _openmp() -> _OpenMP | None:
    """Returns libgomp's entries; None if this torch was built with other threads."""
    pointer, number = ctypes.c_void_p, ctypes.c_uint
    signature = ctypes.CFUNCTYPE(None, pointer, pointer, number, number)
    try:
        library = ctypes.CDLL(None)
        number_address = ctypes.cast(library.omp_get_thread_num, pointer)
        return _OpenMP(signature(("GOMP_parallel", library)), number_address.value)
    except (AttributeError, OSError, TypeError):  # Another C library or another OpenMP.
        return None

"""Outcomes of failed runs: state, error code and message."""

from __future__ import annotations

import signal

from dpsgd_explorer.errors import (
    DivergedError,
    ExplorerError,
    PrivacyViolationError,
    ReplayError,
)
from dpsgd_explorer.runs.store.schema import FAILED, INTERRUPTED, VIOLATION

# Exit codes of a training process, after sysexits.h.
EXIT_STORAGE_LOST = 69  # EX_UNAVAILABLE: the database was lost within a transaction
EXIT_STORAGE_FULL = (
    74  # EX_IOERR: the disk is full, so the outcome could not be stored either
)
EXIT_LEASE_LOST = 75  # EX_TEMPFAIL: another worker has the run

OUT_OF_MEMORY_MESSAGES = (
    "can't allocate memory",
    "cannot allocate memory",
    "failed to map segment",
    "bad_alloc",
    "can't start new thread",
    "error return without exception set",  # CPython, if an import runs out of memory
)
Outcome = tuple[str, dict[str, str]]


def of_exception(error: Exception, memory_mib: int) -> Outcome:
    """Returns the outcome of a run whose training raised ``error``."""
    if isinstance(error, ReplayError):
        return _outcome(INTERRUPTED, "replay_mismatch", str(error))
    if isinstance(error, DivergedError):
        return _outcome(FAILED, "diverged", str(error))
    if isinstance(error, PrivacyViolationError):
        return _outcome(FAILED, VIOLATION, str(error))
    if isinstance(error, ExplorerError):
        return _outcome(FAILED, "refused", str(error))
    if is_out_of_memory(error):
        return memory_limit(memory_mib)
    return _outcome(
        FAILED,
        "internal_error",
        f"the run ended with an error of this program ({type(error).__name__}). The "
        "server's log has the details.",
    )


def of_exit(code: int, *, seconds: int) -> Outcome:
    """Returns the outcome of a process that stored none.

    Args:
        code: Exit code, or minus the number of the signal.
        seconds: Maximum duration of a run, for the message.
    """
    if code == EXIT_STORAGE_FULL:
        return _outcome(
            INTERRUPTED,
            "storage_full",
            "storage full: the server's disk has no room for the rest of this run.",
        )
    if code == -signal.SIGXCPU:
        return time_limit(seconds)
    how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    return _outcome(
        FAILED,
        "crashed",
        f"the training process ended with {how}. Start the run again.",
    )


def time_limit(seconds: int) -> Outcome:
    """Returns the outcome of a run that exceeded the time limit."""
    return _outcome(
        FAILED,
        "time_limit",
        f"the run was stopped after {seconds} seconds, the limit of this site. Use "
        "fewer steps, a smaller batch or a smaller model.",
    )


def memory_limit(memory_mib: int) -> Outcome:
    """Returns the outcome of a run that exceeded the memory limit."""
    return _outcome(
        FAILED,
        "memory_limit",
        f"the run needed more memory than the limit of this site ({memory_mib} MiB). "
        "Use a smaller batch or a smaller model.",
    )


def _outcome(state: str, code: str, message: str) -> Outcome:
    return state, {"code": code, "message": message}


def is_out_of_memory(error: Exception) -> bool:
    """Returns True if memory ran out.

    Torch and the dynamic loader report this in the message only.
    """
    if isinstance(error, MemoryError):
        return True
    return any(words in str(error).lower() for words in OUT_OF_MEMORY_MESSAGES)

"""Finds what was compiled from our C files at install time."""

from __future__ import annotations

import ctypes
import logging
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any, NamedTuple

#: A function of a library; the class that ctypes has for it has no public name.
Function = Any

MISSING = (
    "Compiled kernels are missing, so private steps take longer. Install a C compiler "
    "and reinstall dpsgd-explorer."
)
log = logging.getLogger(__name__)


def compiled_file(folder: Path, name: str) -> Path | None:
    """Return the library of a name, as pyproject.toml has it; None if there is none."""
    files = (folder / f"{name}{suffix}" for suffix in EXTENSION_SUFFIXES)
    found = next((file for file in files if file.exists()), None)
    if found is None:
        report_missing()
    return found


@cache
def report_missing() -> None:
    """Logs once per process that steps are slower than they could be."""
    log.warning(MISSING)


def opened(file: Path) -> ctypes.CDLL | None:
    """Load a library; its functions run without Python's lock.

    None if the system cannot load it, as one that was built for another processor.
    """
    try:
        return ctypes.CDLL(str(file))
    except OSError as error:
        log.warning("%s cannot be loaded: %s. %s", file.name, error, MISSING)
        return None


def agrees(library: ctypes.CDLL, size: str, *structs: type[ctypes.Structure]) -> bool:
    """Whether a library takes these structs, by its function that adds up their sizes.

    One that was compiled from another version's source might write anywhere.
    """
    if not hasattr(library, size):
        return False
    return bool(getattr(library, size)() == sum(map(ctypes.sizeof, structs)))


class Loop(NamedTuple):
    """A compiled function of one struct, and the length of its vectors."""

    function: Function
    lanes: int


def loop(file: Path, name: str, *structs: type[ctypes.Structure]) -> Loop | None:
    """Return the function of a name from a compiled file.

    None if this processor is too old, or another version's source was compiled.

    Args:
        file: Exports the function, ``job_bytes`` and ``lanes``.
        name: Name of the function.
        structs: The struct whose address the function takes, and the structs to which
            that struct points.
    """
    library = opened(file)
    if library is None or not agrees(library, "job_bytes", *structs):
        return None
    lanes = library.lanes()
    function = getattr(library, name)
    function.restype = None
    return Loop(function, lanes) if lanes else None

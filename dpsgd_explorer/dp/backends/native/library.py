"""Finds and loads the libraries that were compiled from C at install time."""

from __future__ import annotations

import ctypes
import logging
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any, NamedTuple

#: A function of a library.  The class of these objects in ctypes has no public name.
Function = Any

MISSING = (
    "Compiled kernels are missing, so private steps take longer. Install a C compiler "
    "and reinstall dpsgd-explorer."
)
log = logging.getLogger(__name__)


def compiled_file(folder: Path, name: str) -> Path | None:
    """Returns the path of a library; None, with a warning, if the file is missing.

    Args:
        folder: Folder of the file.
        name: File name in pyproject.toml, without the platform's suffix.
    """
    files = (folder / f"{name}{suffix}" for suffix in EXTENSION_SUFFIXES)
    existing = next((file for file in files if file.exists()), None)
    if existing is None:
        report_missing()
    return existing


@cache
def report_missing() -> None:
    """Warns, once per process, that steps are slower without compiled kernels."""
    log.warning(MISSING)


def load_library(file: Path) -> ctypes.CDLL | None:
    """Loads a library, whose functions run without Python's lock.

    None if the system cannot load the file, for example because it was built for
    another processor.
    """
    try:
        return ctypes.CDLL(str(file))
    except OSError as error:
        log.warning("%s cannot be loaded: %s. %s", file.name, error, MISSING)
        return None


def has_structs(library: ctypes.CDLL, *structs: type[ctypes.Structure]) -> bool:
    """Returns True if the structs of a library have the total size of these structs.

    A library of another version could otherwise write to any address.  Its function
    ``job_bytes`` returns the sum of the sizes.
    """
    if not hasattr(library, "job_bytes"):
        return False
    return bool(library.job_bytes() == sum(map(ctypes.sizeof, structs)))


class Loop(NamedTuple):
    """A compiled function whose argument is the address of a struct.

    Attributes:
        function: The function.
        lanes: Numbers per vector of the processor's longest supported vectors.
    """

    function: Function
    lanes: int


def load_loop(file: Path, name: str, *structs: type[ctypes.Structure]) -> Loop | None:
    """Returns a function of a compiled file.

    None if this processor has no AVX2, or if the file was compiled from the source of
    another version.

    Args:
        file: Library that exports the function, ``job_bytes`` and ``lanes``.
        name: Name of the function.
        structs: The struct that the function reads, and all structs that it points to.
    """
    library = load_library(file)
    if library is None or not has_structs(library, *structs):
        return None
    lanes = library.lanes()
    function = getattr(library, name)
    function.restype = None
    return Loop(function, lanes) if lanes else None

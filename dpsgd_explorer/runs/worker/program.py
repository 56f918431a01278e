"""Name of the program that trains: other versions may compute different bits."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.metadata import version
from pathlib import Path

from dpsgd_explorer import __version__

SOURCES = Path(__file__).parents[2]
DIGITS = 16


@cache
def program() -> str:
    """Returns the version, with a hash of the sources and of torch's version.

    The version alone does not distinguish two states of a working tree.
    """
    digest = hashlib.sha256(version("torch").encode())
    for file in sorted(SOURCES.rglob("*.py")):
        digest.update(file.relative_to(SOURCES).as_posix().encode())
        digest.update(file.read_bytes())
    return f"{__version__} {digest.hexdigest()[:DIGITS]}"

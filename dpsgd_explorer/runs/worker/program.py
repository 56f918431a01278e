"""The name of the program that trains: another one may compute other bits."""

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
    """Return the version of this program, with a hash of its sources and of torch's.

    The version alone does not tell two states of a working tree apart.
    """
    digest = hashlib.sha256(version("torch").encode())
    for file in sorted(SOURCES.rglob("*.py")):
        digest.update(file.relative_to(SOURCES).as_posix().encode())
        digest.update(file.read_bytes())
    return f"{__version__} {digest.hexdigest()[:DIGITS]}"

"""Names of runs, groups and classes that nobody can guess."""

from __future__ import annotations

import secrets


def new_id(size: int = 16) -> str:
    """Returns a random name for addresses, files and tables.

    It does not start with a hyphen: a command would read it as an option, and a
    spreadsheet as a formula.

    Args:
        size: Number of random bytes in the name.
    """
    while True:
        name = secrets.token_urlsafe(size)
        if not name.startswith("-"):
            return name

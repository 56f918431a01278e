"""Names of runs, groups and classes that nobody can guess."""

from __future__ import annotations

import secrets


def new_id(size: int = 16) -> str:
    """Return a name of so many random bytes, for addresses, files and tables.

    It does not begin with a hyphen: commands would take it for an option, and a
    spreadsheet for a formula.
    """
    while True:
        name = secrets.token_urlsafe(size)
        if not name.startswith("-"):
            return name

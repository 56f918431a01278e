"""Files that only our user on the machine may read."""

from __future__ import annotations

import os
from pathlib import Path

OWNER_ONLY = 0o600
OTHERS = 0o077
# Files that SQLite writes next to a database; new ones get its mode.
BESIDE = ("", "-wal", "-shm", "-journal")


def keep_private(database: Path) -> None:
    """Make a database file that only its owner may read, or take the right away."""
    database.parent.mkdir(parents=True, exist_ok=True)
    os.close(os.open(database, os.O_CREAT | os.O_RDONLY, OWNER_ONLY))
    for suffix in BESIDE:
        file = database.with_name(database.name + suffix)
        if file.exists() and file.stat().st_mode & OTHERS:
            file.chmod(OWNER_ONLY)

"""The schema version of a SQLite file, read without loading SQLAlchemy."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from dpsgd_explorer.runs import database

REVISIONS = Path(database.__file__).with_name("revisions")
PREFIX = "revision_"


def has_later_schema(file: Path) -> bool:
    """Returns True if a later program wrote the database."""
    if not file.exists():
        return False
    try:
        address = f"{file.resolve().as_uri()}?mode=ro"
        with contextlib.closing(sqlite3.connect(address, uri=True)) as connection:
            row = connection.execute("SELECT version_num FROM alembic_version")
            [version] = row.fetchone() or [""]
    except sqlite3.Error:
        return False  # an early version, or busy: opening the database reports more
    files = REVISIONS.glob(f"{PREFIX}*.py")
    versions = {path.stem.removeprefix(PREFIX) for path in files}
    return bool(version) and version not in versions

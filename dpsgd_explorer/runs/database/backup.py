"""Backup of the database while the site runs.

The copy has the state of a single moment.  Tables of an earlier version are copied
without migration.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
from pathlib import Path

from sqlalchemy.engine import make_url

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.runs.database.address import SQLITE, kind_of, shown


def back_up(url: str, file: Path) -> int:
    """Copies a SQLite database into a new file; returns its size in bytes.

    Args:
        url: Address of the database.
        file: Path of the copy; the folder must exist, the file must not.

    Raises:
        ConfigError: The file exists or cannot be written, or the database is not a
            SQLite file.
    """
    if kind_of(url) != SQLITE:
        raise ConfigError(
            "FILE",
            "database backup copies SQLite files. For a database server, use pg_dump "
            f"--format=custom --file={file} for {shown(url)}, with the address as "
            "postgresql:// (docs/how-to/operate/backup.md).",
        )
    source = make_url(url).database or ""
    try:
        handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}-")
        os.close(handle)  # its mode is 0600, because it contains names of visitors
        try:
            _copy(source, temporary)
            os.link(temporary, file)
        finally:
            Path(temporary).unlink()
    except (OSError, sqlite3.Error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(
            "FILE",
            f"FILE must be a new file in a folder that can be written, got {file} "
            f"({reason}); the database is {source}.",
        ) from None
    return file.stat().st_size


def _copy(source: str, target: str) -> None:
    address = Path(source).resolve().as_uri() + "?mode=ro"
    with (
        contextlib.closing(sqlite3.connect(address, uri=True)) as present,
        contextlib.closing(sqlite3.connect(target)) as copy,
    ):
        present.backup(copy)

"""A copy of the database as of one moment, while the site runs.

The tables are copied as they are: those of an earlier version are not migrated.
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
    """Copy a SQLite database into a new file; return its bytes.

    Args:
        url: Address of the database.
        file: A file that does not exist, in a folder that does.

    Raises:
        ConfigError: the file exists or cannot be written, or a server has a program of
            its own for this.
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
        handle, beside = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}-")
        os.close(handle)  # made with mode 0600: names of visitors are in it
        try:
            _copy(source, beside)
            os.link(beside, file)
        finally:
            Path(beside).unlink()
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

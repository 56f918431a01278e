"""SQLite files that only the site's user on the machine may read."""

from __future__ import annotations

import os
from pathlib import Path

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.runs.files.one_machine import refuse_shared_folder

#: First bytes of a SQLite database; a new file is empty.
SQLITE_START = b"SQLite format 3\0"
OWNER_ONLY = 0o600
OTHERS = 0o077
# Suffixes of the files that SQLite writes next to a database, with the database's mode.
SUFFIXES = ("", "-wal", "-shm", "-journal")


def keep_private(database: Path) -> None:
    """Creates a database file, and removes permissions of other users."""
    database.parent.mkdir(parents=True, exist_ok=True)
    os.close(os.open(database, os.O_CREAT | os.O_RDONLY, OWNER_ONLY))
    for suffix in SUFFIXES:
        file = database.with_name(database.name + suffix)
        if file.exists() and file.stat().st_mode & OTHERS:
            file.chmod(OWNER_ONLY)


def private_file(variable: str, url: str, example: str) -> Path:
    """Returns the SQLite file of an address, created if it is new, and private.

    Args:
        variable: Environment variable with the address.
        url: SQLAlchemy URL.
        example: File name for the error message.

    Raises:
        ConfigError: The address is not a writable SQLite file on this machine.
    """
    try:
        address = make_url(url)
    except ArgumentError:
        address = None
    if (
        address is None
        or address.get_backend_name() != "sqlite"
        or not address.database
    ):
        raise ConfigError(
            variable,
            f"{variable} must be the address of a SQLite file, such as "
            f"sqlite:////var/lib/dpsgd/{example}, got {url!r}.",
        )
    file = Path(address.database)
    refuse_shared_folder(variable, file)
    try:
        keep_private(file)
        with file.open("rb") as content:
            start = content.read(len(SQLITE_START))
    except OSError as error:
        raise ConfigError(
            variable,
            f"{variable} must be a file that can be written: {file}: {error.strerror}.",
        ) from None
    if start not in (b"", SQLITE_START):
        raise ConfigError(
            variable,
            f"{variable} must be a SQLite database, got {file}, which is another file "
            "or damaged. Restore it from a backup, or name a new file.",
        )
    return file

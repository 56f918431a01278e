"""A reserve on the disk, so that runs can end when the disk is full.

A file of zeros is next to the database.  If a write fails because the disk is full,
the file is removed, and its space is used by the writes that end a run.  Other writes
are rejected until the file can be written again.
"""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

from dpsgd_explorer.errors import StorageFullError, StorageReadOnlyError

RESERVE_BYTES = 2**20
# Free space at which the reserve is written again; it leaves space for some runs.
NEEDED_BYTES = 4 * RESERVE_BYTES
FULL_DISK_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT})


def storage_full() -> StorageFullError:
    """Returns the error for a full disk."""
    return StorageFullError(
        "the server's disk is full: stored runs can be read, but nothing new can be "
        "stored until its operator frees space."
    )


def storage_read_only() -> StorageReadOnlyError:
    """Returns the error for a read-only disk or file."""
    return StorageReadOnlyError(
        "the server's disk is read-only now: stored runs can be read, but nothing new "
        "can be stored until its operator makes it writable again."
    )


class DiskReserve:
    """The file of zeros, which all processes share."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def demand(self) -> None:
        """Writes the file if it is missing.

        Raises:
            StorageFullError: The disk is full.
            StorageReadOnlyError: The disk is read-only.
        """
        if self._path.exists():
            return
        if shutil.disk_usage(self._path.parent).free < NEEDED_BYTES:
            raise storage_full()
        try:
            self._path.write_bytes(bytes(RESERVE_BYTES))
        except OSError as error:
            self.release()
            if error.errno in FULL_DISK_ERRORS:
                raise storage_full() from error
            if error.errno == errno.EROFS:
                raise storage_read_only() from error
            raise

    def release(self) -> None:
        """Removes the file, so that the next writes can use its space."""
        self._path.unlink(missing_ok=True)

"""A reserve on the disk, so that runs can end when the disk is full.

A file of zeros is kept next to the database.  When a write finds the disk full, the
file is removed, and its space serves the writes that end a run.  Until the file can
be written again, other writes are refused.
"""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

from dpsgd_explorer.errors import StorageFullError, StorageReadOnlyError

RESERVE_BYTES = 2**20
# Written again only when there is space for some time of work.
NEEDED_BYTES = 4 * RESERVE_BYTES
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def storage_full() -> StorageFullError:
    """Return the error for a full disk."""
    return StorageFullError(
        "the server's disk is full: stored runs can be read, but nothing new can be "
        "stored until its operator frees space."
    )


def storage_read_only() -> StorageReadOnlyError:
    """Return the error for a disk or file that takes no writes."""
    return StorageReadOnlyError(
        "the server's disk is read-only now: stored runs can be read, but nothing new "
        "can be stored until its operator makes it writable again."
    )


class DiskReserve:
    """The file of zeros; all processes share it."""

    def __init__(self, path: Path) -> None:
        """Do nothing yet."""
        self._path = path

    def demand(self) -> None:
        """Write the file if it is missing.

        Raises:
            StorageFullError: the disk is full.
            StorageReadOnlyError: it takes no writes.
        """
        if self._path.exists():
            return
        if shutil.disk_usage(self._path.parent).free < NEEDED_BYTES:
            raise storage_full()
        try:
            self._path.write_bytes(bytes(RESERVE_BYTES))
        except OSError as error:
            self.release()
            if error.errno in FULL:
                raise storage_full() from error
            if error.errno == errno.EROFS:
                raise storage_read_only() from error
            raise

    def release(self) -> None:
        """Remove the file, so that the next writes can use its space."""
        self._path.unlink(missing_ok=True)

"""Room kept back on the disk, so that what matters can be stored when it is full.

A file of zeros lies beside the database.  When a write finds no room, the file is
removed: what it took is then there for the writes that bring things to an end.  Until
it can be made again, other writes are refused.
"""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

from dpsgd_explorer.errors import StorageFullError

RESERVE_BYTES = 2**20
# Made again only when there is room for some time of work.
NEEDED_BYTES = 4 * RESERVE_BYTES
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def storage_full() -> StorageFullError:
    """Return the error that says so."""
    return StorageFullError(
        "the server's disk is full: what is stored can be read, but nothing new can "
        "be stored until its operator has made room."
    )


class DiskReserve:
    """The file; whether it is there is the same for all processes."""

    def __init__(self, path: Path) -> None:
        """Do nothing yet."""
        self._path = path

    def demand(self) -> None:
        """See that it is there; raises StorageFullError if there is no room for it."""
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
            raise

    def release(self) -> None:
        """Give its room to the next writes."""
        self._path.unlink(missing_ok=True)

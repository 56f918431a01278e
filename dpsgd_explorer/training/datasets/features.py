"""Fixed features of a data set, computed when a row is first needed, then cached.

All rows are rounded to float16, whether they are computed, cached in memory or read
from the disk.  A row has the same bits whatever rows are computed together with it (see
``scattering``).  A run's results therefore do not depend on the state of the cache.

The files are in a folder that several processes may use at a time:

| file | content |
|---|---|
| ``<key>.rows`` | float16 [N, F]; missing rows are holes |
| ``<key>.sums`` | int64 [N]; 0 for a missing row, else 2^32 + the row's CRC-32 |
| ``<key>.lock`` | empty; locked by the process whose run computes rows |

A row is written before its checksum, and a row with a wrong checksum counts as missing,
so a crash cannot leave a wrong row.  Two processes that compute one row write equal
bytes.  The lock only prevents two runs from computing the same rows.  A process that
computes rows ahead does not take the lock: it has a low priority, and runs would have
to wait for it.  If it computes the rows of a run, a few rows are computed twice.  If
the disk is full or not writable, the features are cached in memory only.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import IO

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpsgd_explorer.training.cpu.threads import threads

#: Number of rows computed per lock: the maximum that another run waits for.
CHUNK_ROWS = 256
#: Seconds after which a run stops waiting for the lock and computes the rows too.  A
#: process that was stopped by a signal does not release its lock.
PATIENCE_SECONDS = 5.0
#: Seconds between two attempts to take the lock.
POLL_SECONDS = 0.005

Transform = Callable[[Tensor], Tensor]
Rows = NDArray[np.float16]
Index = NDArray[np.int64]

#: Added to the CRC-32 of a row, so that the checksum of a computed row is never 0.
PRESENT = 2**32

log = logging.getLogger(__name__)


class FeatureTable:
    """The features of the training records or the test records of a data set.

    Args:
        inputs: Records, [N, ...].
        transform: Function from records [B, ...] to features [B, F]; each row depends
            on its record only.
        width: Number of features, F.
        key: Name of inputs and transform; see ``content_key``.
        folder: Folder that processes share; None to cache in memory only.

    Attributes:
        on_progress: Function that is called after each computed chunk.
    """

    def __init__(
        self,
        inputs: Tensor,
        transform: Transform,
        *,
        width: int,
        key: str,
        folder: Path | None = None,
    ) -> None:
        self.on_progress: Callable[[], None] = lambda: None
        self._inputs = inputs
        self._transform = transform
        self._ready = np.zeros(len(inputs), dtype=np.bool_)
        shape = (len(inputs), width)
        self._disk = None if folder is None else _open(folder, key, shape)
        if self._disk is None:
            self._rows = np.zeros(shape, dtype=np.float16)
            self._sums = np.zeros(len(inputs), dtype=np.int64)
        else:
            self._rows, self._sums = self._disk.rows(), self._disk.sums()

    def __getitem__(self, index: Tensor) -> Tensor:
        """Returns rows, and computes missing rows: int64 [B] -> float32 [B, F]."""
        rows = index.numpy()
        missing = rows[~self._ready[rows]]
        if len(missing):
            self._complete(np.unique(missing))
        return torch.from_numpy(self._rows[rows]).float()

    def __len__(self) -> int:
        """Returns the number of records."""
        return len(self._inputs)

    @property
    def present(self) -> int:
        """Number of rows computed so far, by any process."""
        return int(np.count_nonzero(self._sums))

    def complete(self, rows: range) -> None:
        """Computes the missing rows of a range ahead of the runs that need them."""
        chunk = np.arange(rows.start, rows.stop)
        self._compute(self._missing(chunk))
        self._ready[chunk] = True

    def _complete(self, rows: Index) -> None:
        for start in range(0, len(rows), CHUNK_ROWS):
            chunk = rows[start : start + CHUNK_ROWS]
            if len(self._missing(chunk)):
                with nullcontext() if self._disk is None else self._disk.locked():
                    self._compute(self._missing(chunk))
                self.on_progress()
            self._ready[chunk] = True

    def _missing(self, rows: Index) -> Index:
        """Returns the rows without a correct checksum."""
        candidates = rows[self._sums[rows] != 0]
        is_valid = row_sums(self._rows[candidates]) == self._sums[candidates]
        return np.setdiff1d(rows, candidates[is_valid], assume_unique=True)

    def _compute(self, rows: Index) -> None:
        if not len(rows):
            return
        # One thread, because the rounding may depend on the number of threads.
        with threads(1):
            values = self._transform(self._inputs[torch.from_numpy(rows)])
        self._store(rows, values.half().numpy())

    def _store(self, index: Index, values: Rows) -> None:
        """Writes rows to the disk; after the first failure, to memory only."""
        if self._disk is not None:
            try:
                return self._disk.write(index, values)
            except OSError as error:
                log.warning("features are no longer stored on disk: %s", error)
                self._disk = None
                self._rows, self._sums = self._ready_rows()
        self._rows[index], self._sums[index] = values, row_sums(values)

    def _ready_rows(self) -> tuple[Rows, Index]:
        """Returns a copy of the rows and checksums read or computed so far."""
        rows, sums = np.zeros_like(self._rows), np.zeros_like(self._sums)
        ready = np.flatnonzero(self._ready)
        rows[ready], sums[ready] = self._rows[ready], self._sums[ready]
        return rows, sums


class Disk:
    """The files of a table.

    They are read as memory maps, which show rows of other processes at any time.  They
    are not written through the maps, because a full disk would then end the process
    with a signal instead of raising an error.
    """

    def __init__(self, stem: Path, shape: tuple[int, int]) -> None:
        self._shape = shape
        self._row_file = stem.with_suffix(".rows")
        self._sum_file = stem.with_suffix(".sums")
        self._lock_file = stem.with_suffix(".lock")
        self._lock_file.touch()
        _make(self._row_file, shape[0] * shape[1] * 2)
        _make(self._sum_file, shape[0] * 8)

    def rows(self) -> Rows:
        """Returns a read-only view of the rows."""
        return np.asarray(np.memmap(self._row_file, np.float16, "r", shape=self._shape))

    def sums(self) -> Index:
        """Returns a read-only view of the checksums."""
        return np.asarray(
            np.memmap(self._sum_file, np.int64, "r", shape=self._shape[:1])
        )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Holds the lock within the context, or gives up after PATIENCE_SECONDS."""
        end = time.monotonic() + PATIENCE_SECONDS
        with self._lock_file.open("a") as lock:
            while not locks(lock) and time.monotonic() < end:
                time.sleep(POLL_SECONDS)
            yield

    def write(self, index: Index, rows: Rows) -> None:
        """Writes rows, then their checksums.

        Raises:
            OSError: the disk is full, or the files have been deleted.
        """
        _write_at(self._row_file, index, rows)
        _write_at(self._sum_file, index, row_sums(rows))


def content_key(digest: str, transform: str) -> str:
    """Returns the name of the features of a file.

    It depends on everything that can change the last bits: the file, the transform and
    its version, torch's version and the instruction set of this processor.

    Args:
        digest: sha256 of the file.
        transform: Name and version of the transform.
    """
    capability = torch.backends.cpu.get_cpu_capability()
    parts = "\n".join([digest, transform, torch.__version__, capability])
    return hashlib.sha256(parts.encode()).hexdigest()[:32]


def row_sums(rows: Rows) -> Index:
    """Returns the checksum of each row: [B, F] -> [B]."""
    return np.array([PRESENT + zlib.crc32(row) for row in rows], dtype=np.int64)


def _open(folder: Path, key: str, shape: tuple[int, int]) -> Disk | None:
    try:
        # Only the owner of the site's folder may enter the parent folder.
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(exist_ok=True)
        return Disk(folder / key, shape)
    except OSError as error:
        log.warning("features are stored only in memory: %s", error)
        return None


def locks(file: IO[str]) -> bool:
    """Locks a file until it is closed; returns False if another process locks it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _make(file: Path, size: int) -> None:
    """Creates a file, or enlarges it to its size; existing content does not change."""
    file.touch()
    if file.stat().st_size < size:
        os.truncate(file, size)


def _write_at(file: Path, index: Index, rows: Rows | Index) -> None:
    with file.open("r+b", buffering=0) as target:
        for place, row in zip(index.tolist(), rows, strict=True):
            os.pwrite(target.fileno(), row.tobytes(), place * row.nbytes)

"""Fixed features of a data set, computed when a row is first asked for and kept.

A row's values are those of the transform rounded to float16, wherever they come from:
computed just now, from this process' memory, or from the disk.  They are the same bits
whatever rows they are computed with (see ``scattering``), so a run does not depend on
what was there before it.

On disk, in a folder that several processes may use at once:

| file | holds |
|---|---|
| ``<key>.rows`` | float16 [N, F]; a row not yet computed is a hole |
| ``<key>.sums`` | int64 [N]; 0 for a hole, else 2^32 + the row's CRC-32 |
| ``<key>.lock`` | nothing; locked by the process whose run computes rows |

A row is written before its sum, and one whose sum does not fit counts as a hole: no
crash can leave a wrong row.  Two processes that write one row write the same bytes;
the lock is there so that no run computes what another is at.  Who computes rows ahead
takes no lock: at its low priority it would keep the runs waiting, and where it meets
one, a few rows are computed twice.  Without room or right to write, the features stay
in memory.
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

# Rows computed at a time: a run that wants others waits no longer than for these.
PIECE = 256
# A process that was stopped keeps its lock: after this long, rows are computed twice.
PATIENCE_SECONDS = 5.0
POLL_SECONDS = 0.005

Transform = Callable[[Tensor], Tensor]
Rows = NDArray[np.float16]
Index = NDArray[np.int64]

PRESENT = 2**32

log = logging.getLogger(__name__)


class FeatureTable:
    """The features of all records of one part of a data set.

    Args:
        inputs: [N, ...], what the features are computed from.
        transform: From [B, ...] to [B, F]; a row depends on its own record only.
        width: F.
        key: Names inputs and transform, see ``content_key``.
        folder: Where they are kept between processes; None for nowhere.

    Attributes:
        on_progress: Called after each piece that was computed.
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
        """Return rows, computing what is missing: int64 [B] -> float32 [B, F]."""
        wanted = index.numpy()
        missing = wanted[~self._ready[wanted]]
        if len(missing):
            self._complete(np.unique(missing))
        return torch.from_numpy(self._rows[wanted]).float()

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self._inputs)

    @property
    def present(self) -> int:
        """How many rows have been computed by now, whether here or elsewhere."""
        return int(np.count_nonzero(self._sums))

    def complete(self, rows: range) -> None:
        """Compute what is missing of some rows, ahead of the runs that want them."""
        piece = np.arange(rows.start, rows.stop)
        self._compute(self._absent(piece))
        self._ready[piece] = True

    def _complete(self, rows: Index) -> None:
        for start in range(0, len(rows), PIECE):
            piece = rows[start : start + PIECE]
            if len(self._absent(piece)):
                with nullcontext() if self._disk is None else self._disk.locked():
                    self._compute(self._absent(piece))
                self.on_progress()
            self._ready[piece] = True

    def _absent(self, rows: Index) -> Index:
        """Return the rows that are not known to be computed yet."""
        candidates = rows[self._sums[rows] != 0]
        whole = row_sums(self._rows[candidates]) == self._sums[candidates]
        return np.setdiff1d(rows, candidates[whole], assume_unique=True)

    def _compute(self, rows: Index) -> None:
        if not len(rows):
            return
        with threads(1):  # so that their number cannot be seen in the bits
            values = self._transform(self._inputs[torch.from_numpy(rows)])
        self._keep(rows, values.half().numpy())

    def _keep(self, index: Index, values: Rows) -> None:
        """Write rows to the disk; after the first failure, stay in memory."""
        if self._disk is not None:
            try:
                return self._disk.write(index, values)
            except OSError as error:
                log.warning("features are no longer stored on disk: %s", error)
                self._disk = None
                self._rows, self._sums = self._ready_rows()
        self._rows[index], self._sums[index] = values, row_sums(values)

    def _ready_rows(self) -> tuple[Rows, Index]:
        """Return a copy in memory of what was read or computed so far."""
        rows, sums = np.zeros_like(self._rows), np.zeros_like(self._sums)
        ready = np.flatnonzero(self._ready)
        rows[ready], sums[ready] = self._rows[ready], self._sums[ready]
        return rows, sums


class Disk:
    """The two files of a table.

    Both are read through maps, so that what another process writes is seen, and written
    with plain writes: a full disk raises an error instead of ending the process.
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
        """Return the rows as they are at any time; to be read only."""
        return np.asarray(np.memmap(self._row_file, np.float16, "r", shape=self._shape))

    def sums(self) -> Index:
        """Return the rows' sums as they are at any time; to be read only."""
        return np.asarray(
            np.memmap(self._sum_file, np.int64, "r", shape=self._shape[:1])
        )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Let no other process compute meanwhile, unless it is stopped."""
        end = time.monotonic() + PATIENCE_SECONDS
        with self._lock_file.open("a") as lock:
            while not locks(lock) and time.monotonic() < end:
                time.sleep(POLL_SECONDS)
            yield

    def write(self, index: Index, rows: Rows) -> None:
        """Write rows, then their sums.

        Raises:
            OSError: the disk is full, or the files are gone.
        """
        _write_at(self._row_file, index, rows)
        _write_at(self._sum_file, index, row_sums(rows))


def content_key(digest: str, transform: str) -> str:
    """Return a name for the features of a file under a transform and its version.

    What could change the last bits is part of it: torch's version and the
    instructions of this processor.
    """
    capability = torch.backends.cpu.get_cpu_capability()
    parts = "\n".join([digest, transform, torch.__version__, capability])
    return hashlib.sha256(parts.encode()).hexdigest()[:32]


def row_sums(rows: Rows) -> Index:
    """Return the presence mark per row: [B, F] -> [B]."""
    return np.array([PRESENT + zlib.crc32(row) for row in rows], dtype=np.int64)


def _open(folder: Path, key: str, shape: tuple[int, int]) -> Disk | None:
    try:
        # The folder above is that of a site's runs, which only its owner may enter.
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(exist_ok=True)
        return Disk(folder / key, shape)
    except OSError as error:
        log.warning("features are stored only in memory: %s", error)
        return None


def locks(file: IO[str]) -> bool:
    """Lock a file until it is closed, if no other process has it locked."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _make(file: Path, size: int) -> None:
    """Make the file, or let it grow to its size; what is in it stays."""
    file.touch()
    if file.stat().st_size < size:
        os.truncate(file, size)


def _write_at(file: Path, index: Index, rows: Rows | Index) -> None:
    with file.open("r+b", buffering=0) as target:
        for place, row in zip(index.tolist(), rows, strict=True):
            os.pwrite(target.fileno(), row.tobytes(), place * row.nbytes)

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

A row is written before its sum, and one whose sum does not fit counts as a hole: no
crash can leave a wrong row.  Two processes that write one row write the same bytes.
Without room or right to write, the features stay in memory.
"""

from __future__ import annotations

import hashlib
import logging
import os
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpsgd_explorer.training.threads import threads

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

    def _complete(self, rows: Index) -> None:
        candidates = rows[self._sums[rows] != 0]
        whole = row_sums(self._rows[candidates]) == self._sums[candidates]
        absent = np.setdiff1d(rows, candidates[whole], assume_unique=True)
        if len(absent):
            with threads(1):  # so that their number cannot be seen in the bits
                values = self._transform(self._inputs[torch.from_numpy(absent)])
            self._rows[absent] = values.half().numpy()
            self._keep(absent)
        self._ready[rows] = True

    def _keep(self, index: Index) -> None:
        """Write rows to the disk; after the first failure never again."""
        if self._disk is None:
            return
        try:
            self._disk.write(index, self._rows[index])
        except OSError as error:
            log.warning("features are no longer kept on disk: %s", error)
            self._disk = None


class Disk:
    """The two files of a table.

    Rows are read through a private map and written with plain writes: what is computed
    is in memory at once whether or not the disk takes it, and a full disk raises an
    error instead of ending the process.
    """

    def __init__(self, stem: Path, shape: tuple[int, int]) -> None:
        self._shape = shape
        self._row_file = stem.with_suffix(".rows")
        self._sum_file = stem.with_suffix(".sums")
        _make(self._row_file, shape[0] * shape[1] * 2)
        _make(self._sum_file, shape[0] * 8)

    def rows(self) -> Rows:
        """Return the rows, holes as zeros; changes to them stay in this process."""
        return np.asarray(np.memmap(self._row_file, np.float16, "c", shape=self._shape))

    def sums(self) -> Index:
        """Return the rows' sums as they are now."""
        return np.fromfile(self._sum_file, np.int64, self._shape[0])

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
    """Return what marks each row as present: [B, F] -> [B]."""
    return np.array([PRESENT + zlib.crc32(row) for row in rows], dtype=np.int64)


def _open(folder: Path, key: str, shape: tuple[int, int]) -> Disk | None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return Disk(folder / key, shape)
    except OSError as error:
        log.warning("features are kept in memory only: %s", error)
        return None


def _make(file: Path, size: int) -> None:
    """Make the file, or let it grow to its size; what is in it stays."""
    file.touch()
    if file.stat().st_size < size:
        os.truncate(file, size)


def _write_at(file: Path, index: Index, rows: Rows | Index) -> None:
    with file.open("r+b", buffering=0) as target:
        for place, row in zip(index.tolist(), rows, strict=True):
            os.pwrite(target.fileno(), row.tobytes(), place * row.nbytes)

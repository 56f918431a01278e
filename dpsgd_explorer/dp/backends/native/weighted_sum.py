"""Weighted sums of per-sample gradients, in all of torch's threads.

The loop is ``weighted_sum.c``.  It is available if it was compiled at install time and
the processor has AVX2.  torch's product of a matrix and a vector uses one thread.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from pathlib import Path

import torch
from torch import Tensor

from dpsgd_explorer.dp.backends.native import team
from dpsgd_explorer.dp.backends.native.library import Loop, compiled_file, load_loop

#: File name of the library in pyproject.toml, without the platform's suffix.
NAME = "_weighted_sum"
#: Numbers of the rows.  With fewer, torch's product is faster.
MIN_NUMBERS = 2**14
#: Numbers of the rows.  With fewer, the start of a second thread costs more than it
#: saves.
MIN_PARALLEL_NUMBERS = 2**18
#: Numbers of the sum per unit of work: a multiple of 8 vectors.
UNIT = 2**12


class _Sum(ctypes.Structure):
    """``struct sum``."""

    _fields_ = [
        *[(name, ctypes.c_void_p) for name in ("rows", "weights", "total")],
        *[(name, ctypes.c_ssize_t) for name in ("numbers", "column")],
    ]


class _Job(ctypes.Structure):
    """``struct job``."""

    _fields_ = [
        ("team", team.Team),
        ("sums", ctypes.c_void_p),
        *[(name, ctypes.c_ssize_t) for name in ("count", "samples", "unit", "length")],
    ]


@cache
def installed() -> Loop | None:
    """Returns the installed loop; None if this processor cannot run one."""
    file = compiled_file(Path(__file__).parent, NAME)
    return None if file is None else load(file)


def load(file: Path) -> Loop | None:
    """Returns the loop of a compiled file; see ``library.load_loop``."""
    return load_loop(file, "weighted_sum", _Job, _Sum)


def is_supported(rows: Tensor, weights: Tensor, total: Tensor) -> bool:
    """Returns True if the loop is installed, supports these tensors and is faster."""
    is_faster = rows.numel() >= MIN_NUMBERS
    return is_faster and _fit(rows, weights, total) and installed() is not None


def add_weighted_sum(rows: Tensor, weights: Tensor, total: Tensor) -> None:
    """Adds sum_i weights[i] rows[i] to ``total``; ``is_supported`` must hold.

    Args:
        rows: Contiguous, [B, P].
        weights: [B].
        total: Contiguous, [P].
    """
    compiled = installed()
    assert compiled is not None
    columns = -(-total.numel() // UNIT)
    numbers = rows.numel()
    addresses = rows.data_ptr(), weights.data_ptr(), total.data_ptr()
    table = _Sum(*addresses, total.numel(), 0)
    _run(compiled, ctypes.addressof(table), 1, len(rows), columns, numbers)


class WeightedSums:
    """Weighted sums of several per-sample gradients in one block of memory.

    Args:
        sizes: Numbers of a sample in each gradient.
        offsets: Numbers of a sample before each gradient.  For B samples, the rows
            [B, size] of a gradient begin at B times its offset.
    """

    def __init__(self, sizes: Sequence[int], offsets: Sequence[int]) -> None:
        self._sizes, self._offsets = sizes, offsets
        self._columns = sum(-(-size // UNIT) for size in sizes)
        self._numbers = sum(sizes)

    @cached_property
    def _table(self) -> ctypes.Array[_Sum]:
        """The sums as C structs; each call sets the addresses."""
        table = (_Sum * len(self._sizes))()
        column = 0
        for entry, size in zip(table, self._sizes, strict=True):
            entry.numbers, entry.column = size, column
            column += -(-size // UNIT)
        return table

    def rows(self, gradients: Tensor, samples: int) -> Iterator[Tensor]:
        """Yields a view of the rows of each gradient, [B, size]."""
        for size, offset in zip(self._sizes, self._offsets, strict=True):
            start = samples * offset
            yield gradients[start : start + samples * size].view(samples, size)

    def add(
        self, gradients: Tensor, weights: Sequence[Tensor], totals: Sequence[Tensor]
    ) -> None:
        """Adds sum_i weights[i] rows[i] of each gradient to the gradient's total.

        Args:
            gradients: The block of memory with all gradients.
            weights: [B] for each gradient.
            totals: For each gradient, a total of its size in any shape.
        """
        compiled, samples = installed(), len(weights[0])
        distinct = {id(w): w for w in weights}
        if compiled is None or not _fit(gradients, *distinct.values(), *totals):
            rows = self.rows(gradients, samples)
            for values, w, total in zip(rows, weights, totals, strict=True):
                total.add_((w @ values).view(total.shape))
            return
        table = self._table
        start, step = gradients.data_ptr(), gradients.element_size() * samples
        addresses = {key: w.data_ptr() for key, w in distinct.items()}
        for entry, offset, w, total in zip(
            table, self._offsets, weights, totals, strict=True
        ):
            entry.rows, entry.weights = start + step * offset, addresses[id(w)]
            entry.total = total.data_ptr()
        numbers = samples * self._numbers
        _run(
            compiled,
            ctypes.addressof(table),
            len(table),
            samples,
            self._columns,
            numbers,
        )


def _run(
    compiled: Loop, sums: int, count: int, samples: int, columns: int, numbers: int
) -> None:
    """Runs the loop on a table of sums.

    Args:
        compiled: The loop.
        sums: Address of the table of ``struct sum``.
        count: Number of sums.
        samples: Rows of each sum, B.
        columns: Columns of the table of units.
        numbers: Numbers of all rows.
    """
    threads = team.useful_threads(columns, numbers, MIN_PARALLEL_NUMBERS)
    split = team.team(threads, 1, columns)
    job = _Job(split, sums, count, samples, UNIT, compiled.lanes)
    team.run(compiled.function, job)


def _fit(*tensors: Tensor) -> bool:
    return all(
        t.dtype is torch.float32 and t.is_cpu and t.is_contiguous() for t in tensors
    )

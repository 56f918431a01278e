"""Weighted sums of the samples' gradients, by as many threads as torch has.

Compiled from ``weighted_sum.c``, where that was done at install time and the processor
has AVX2.  torch's own product of a matrix and a vector takes one thread for it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from pathlib import Path

import torch
from torch import Tensor

from dpsgd_explorer.dp.backends.native import team
from dpsgd_explorer.dp.backends.native.library import Loop, compiled_file, loop

#: The library's name, as pyproject.toml has it, without the platform's suffix.
NAME = "_weighted_sum"
#: Numbers from which a call costs less than torch's, and a second thread its start.
FEW, MANY = 2**14, 2**18
#: Numbers of the sum that a thread takes at once: a multiple of those of 8 vectors.
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
    """Return the function; None if it is not compiled, or not for this processor."""
    file = compiled_file(Path(__file__).parent, NAME)
    return None if file is None else loaded(file)


def loaded(file: Path) -> Loop | None:
    """Return the function of a compiled file; see ``library.loop``."""
    return loop(file, "weighted_sum", _Job, _Sum)


def is_supported(rows: Tensor, weights: Tensor, total: Tensor) -> bool:
    """Return True if the loop takes such tensors, and in less time than torch."""
    return (
        rows.numel() >= FEW and _fit(rows, weights, total) and installed() is not None
    )


def add_weighted_sum(rows: Tensor, weights: Tensor, total: Tensor) -> None:
    """Add sum_i weights[i] rows[i], [P], to ``total``.

    Args:
        rows: Contiguous, [B, P].
        weights: [B].
        total: Contiguous, [P].  ``is_supported`` holds for the three.
    """
    compiled = installed()
    assert compiled is not None
    columns = -(-total.numel() // UNIT)
    numbers = rows.numel()
    addresses = rows.data_ptr(), weights.data_ptr(), total.data_ptr()
    own = _Sum(*addresses, total.numel(), 0)
    _run(compiled, ctypes.addressof(own), 1, len(rows), columns, numbers)


class WeightedSums:
    """Sums over samples of several gradients that lie in one piece of memory.

    Args:
        sizes: Numbers of each gradient of a sample.
        before: Numbers of a sample before it.  Of B samples B times as many lie before
            the rows [B, size].
    """

    def __init__(self, sizes: Sequence[int], before: Sequence[int]) -> None:
        self._sizes, self._before = sizes, before
        self._columns = sum(-(-size // UNIT) for size in sizes)
        self._numbers = sum(sizes)

    @cached_property
    def _table(self) -> ctypes.Array[_Sum]:
        """The sums as C reads them; each call sets its addresses."""
        table = (_Sum * len(self._sizes))()
        column = 0
        for entry, size in zip(table, self._sizes, strict=True):
            entry.numbers, entry.column = size, column
            column += -(-size // UNIT)
        return table

    def rows(self, gradients: Tensor, samples: int) -> Iterator[Tensor]:
        """Yield the rows of each gradient, [B, size], as views."""
        for size, before in zip(self._sizes, self._before, strict=True):
            start = samples * before
            yield gradients[start : start + samples * size].view(samples, size)

    def add(
        self, gradients: Tensor, weights: Sequence[Tensor], totals: Sequence[Tensor]
    ) -> None:
        """Add sum_i weights[i] rows[i] of each gradient to its total.

        Args:
            gradients: All of them.
            weights: [B], for each gradient.
            totals: Of each gradient, its size in any shape.
        """
        compiled, samples = installed(), len(weights[0])
        distinct = {id(own): own for own in weights}
        if compiled is None or not _fit(gradients, *distinct.values(), *totals):
            every = zip(self.rows(gradients, samples), weights, totals, strict=True)
            for rows, own, total in every:
                total.add_((own @ rows).view(total.shape))
            return
        table = self._table
        start, step = gradients.data_ptr(), gradients.element_size() * samples
        places = {key: own.data_ptr() for key, own in distinct.items()}
        for entry, before, own, total in zip(
            table, self._before, weights, totals, strict=True
        ):
            entry.rows, entry.weights = start + step * before, places[id(own)]
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
    """Make as many sums, in so many columns, of so many numbers."""
    threads = team.useful_threads(columns, numbers, MANY)
    split = team.team(threads, 1, columns)
    job = _Job(split, sums, count, samples, UNIT, compiled.lanes)
    team.run(compiled.function, job)


def _fit(*tensors: Tensor) -> bool:
    return all(
        t.dtype is torch.float32 and t.is_cpu and t.is_contiguous() for t in tensors
    )

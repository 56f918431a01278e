"""Sums over positions of backprops times entries under a kernel, sample by sample.

Compiled from ``patch_products.c``, where that was done at install time and the
processor has AVX2.  Entries are read where they lie: no patch is copied.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dpsgd_explorer.dp.backends.native import team
from dpsgd_explorer.dp.backends.native.library import Loop, compiled_file, loop
from dpsgd_explorer.dp.backends.native.memory_pool import POOL

#: The library's name, as pyproject.toml has it, without the platform's suffix.
NAME = "_patch_products"
#: Multiply-adds from which a second thread is worth its start.
MANY = 10**7
#: Roundings of a squared norm: of 24 squares added in float32, and after it.
ROUNDINGS = 32


@dataclass(frozen=True)
class Kernel:
    """Where the entries of a sample lie that a convolution reads, counted in entries.

    Attributes:
        rows: Start of each row of positions.
        width: Positions of a row.
        step: From one position to the next.
        offsets: From a position to each entry of its patch.
    """

    rows: Sequence[int]
    width: int
    step: int
    offsets: Sequence[int]

    @cached_property
    def arrays(self) -> tuple[ctypes.Array[Any], ctypes.Array[Any]]:
        """The rows and the offsets, as C reads them."""
        rows, offsets = self.rows, self.offsets
        size = ctypes.c_ssize_t
        return (size * len(rows))(*rows), (size * len(offsets))(*offsets)


class Products(NamedTuple):
    """What is computed of a batch.

    Attributes:
        values: Gradients, float32 [B, K, p]; each sample's lie in one piece, of rows
            that may be longer than p.
        squares: Their squared norms, float64 [B], of ROUNDINGS roundings.
    """

    values: Tensor
    squares: Tensor


class _Job(ctypes.Structure):
    """``struct job``."""

    _fields_ = [
        ("team", team.Team),
        *[(name, ctypes.c_void_p) for name in ("x", "g", "out", "squares", "scratch")],
        *[(name, ctypes.POINTER(ctypes.c_ssize_t)) for name in ("row", "offset")],
        *[
            (name, ctypes.c_ssize_t)
            for name in (
                *("samples", "entries", "channels", "rows", "width", "step", "kernel"),
                *("outputs", "blocks", "length"),
            )
        ],
    ]


@cache
def installed() -> Loop | None:
    """Return the function; None if it is not compiled, or not for this processor."""
    file = compiled_file(Path(__file__).parent, NAME)
    return None if file is None else loaded(file)


def loaded(file: Path) -> Loop | None:
    """Return the function of a compiled file; see ``library.loop``."""
    return loop(file, "patch_products", _Job)


def is_supported(values: Tensor) -> bool:
    """Whether there is a function, and for such values."""
    if values.dtype is not torch.float32 or values.device.type != "cpu":
        return False
    return installed() is not None


def patch_products(
    x: Tensor, g: Tensor, kernel: Kernel, into: Products | None = None
) -> Products:
    """Return sum_t x[i, start(t) + offset] g[i, :, t], [B, K, p], and its norms.

    Args:
        x: Entries, contiguous float32 [B, ...].
        g: Backprops, float32 [B, p, T].
        kernel: Which entries each position reads.
        into: What ``room`` gave for these samples, or new memory.

    Raises:
        ValueError: ``is_supported`` does not hold.
    """
    compiled = installed()
    if compiled is None or not is_supported(x) or not x.is_contiguous():
        raise ValueError(
            "patch products must be contiguous, float32 and on the CPU, and the kernel "
            f"compiled, got {x.dtype} on {x.device}."
        )
    batch, outputs, positions = g.shape
    values, total = into or room(batch, len(kernel.offsets), outputs)
    wide = values.stride(1)
    g = g.to(torch.float32).contiguous()
    block = 2 * compiled.lanes
    blocks = -(-wide // block)
    squares = x.new_empty(batch, blocks, dtype=torch.float64)
    work = batch * len(kernel.offsets) * wide * positions
    threads = team.useful_threads(batch * blocks, work, MANY)
    scratch = x.new_empty(threads, positions, block)
    tensors = x, g, values, squares, scratch
    sizes = batch, x[0].numel(), outputs, len(kernel.rows), kernel.width, kernel.step
    job = _Job(
        team.team(threads, batch * blocks, 1),
        *(tensor.data_ptr() for tensor in tensors),
        *kernel.arrays,
        *(*sizes, len(kernel.offsets), wide, blocks, compiled.lanes),
    )
    team.run(compiled.function, job)
    torch.sum(squares, 1, out=total)
    return Products(values, total)


def room(batch: int, entries: int, outputs: int) -> Products:
    """Return memory for the gradients of B samples, K entries of p outputs each."""
    compiled = installed()
    lanes = 1 if compiled is None else compiled.lanes
    values = POOL.empty(batch, entries, outputs + -outputs % lanes)
    return Products(values[..., :outputs], torch.empty(batch, dtype=torch.float64))

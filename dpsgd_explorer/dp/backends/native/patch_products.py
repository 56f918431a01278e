"""Sums over positions of backprops times patch entries, for each sample.

The loop is ``patch_products.c``.  It is available if it was compiled at install time
and the processor has AVX2.  It reads patches from the input without copying them.
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
from dpsgd_explorer.dp.backends.native.library import Loop, compiled_file, load_loop
from dpsgd_explorer.dp.backends.native.memory_pool import POOL

#: File name of the library in pyproject.toml, without the platform's suffix.
NAME = "_patch_products"
#: Multiply-adds of a call.  With fewer, the start of a second thread costs more than it
#: saves.
MIN_PARALLEL_PRODUCTS = 10**7
#: Roundings of a squared norm, at most: 24 squares are added in float32, the rest in
#: float64.
ROUNDINGS = 32


@dataclass(frozen=True)
class Kernel:
    """Memory offsets of the entries that a convolution reads, counted in numbers.

    Attributes:
        rows: Offset of each row of positions from the start of the sample.
        width: Positions of a row.
        step: Distance of neighbouring positions.
        offsets: Offset of each entry of a patch from its position.
    """

    rows: Sequence[int]
    width: int
    step: int
    offsets: Sequence[int]

    @cached_property
    def arrays(self) -> tuple[ctypes.Array[Any], ctypes.Array[Any]]:
        """The rows and the offsets as C arrays."""
        rows, offsets = self.rows, self.offsets
        size = ctypes.c_ssize_t
        return (size * len(rows))(*rows), (size * len(offsets))(*offsets)


class Products(NamedTuple):
    """Per-sample gradients and their squared norms.

    Attributes:
        values: float32 [B, K, p].  The memory of a sample is contiguous, but its rows
            may be padded to more than p numbers.
        squares: Squared norms, float64 [B], with at most ROUNDINGS roundings.
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
    """Returns the installed loop; None if this processor cannot run one."""
    file = compiled_file(Path(__file__).parent, NAME)
    return None if file is None else load(file)


def load(file: Path) -> Loop | None:
    """Returns the loop of a compiled file; see ``library.load_loop``."""
    return load_loop(file, "patch_products", _Job)


def is_supported(values: Tensor) -> bool:
    """Returns True if the loop is installed and supports these values."""
    if values.dtype is not torch.float32 or values.device.type != "cpu":
        return False
    return installed() is not None


def patch_products(
    x: Tensor, g: Tensor, kernel: Kernel, out: Products | None = None
) -> Products:
    """Returns sum_t x[i, start(t) + offset] g[i, :, t], [B, K, p], and squared norms.

    Args:
        x: Inputs, contiguous float32 [B, ...].
        g: Backprops, float32 [B, p, T].
        kernel: Entries that each position reads.
        out: Overwritten; memory for these samples from ``empty_products``.  None
            allocates new memory.

    Raises:
        ValueError: ``is_supported`` does not hold for x, or x is not contiguous.
    """
    compiled = installed()
    if compiled is None or not is_supported(x) or not x.is_contiguous():
        raise ValueError(
            "patch products must be contiguous, float32 and on the CPU, and the kernel "
            f"compiled, got {x.dtype} on {x.device}."
        )
    batch, outputs, positions = g.shape
    values, total = out or empty_products(batch, len(kernel.offsets), outputs)
    row_length = values.stride(1)
    g = g.to(torch.float32).contiguous()
    block = 2 * compiled.lanes
    blocks = -(-row_length // block)
    squares = x.new_empty(batch, blocks, dtype=torch.float64)
    work = batch * len(kernel.offsets) * row_length * positions
    threads = team.useful_threads(batch * blocks, work, MIN_PARALLEL_PRODUCTS)
    scratch = x.new_empty(threads, positions, block)
    tensors = x, g, values, squares, scratch
    sizes = batch, x[0].numel(), outputs, len(kernel.rows), kernel.width, kernel.step
    job = _Job(
        team.team(threads, batch * blocks, 1),
        *(tensor.data_ptr() for tensor in tensors),
        *kernel.arrays,
        *(*sizes, len(kernel.offsets), row_length, blocks, compiled.lanes),
    )
    team.run(compiled.function, job)
    torch.sum(squares, 1, out=total)
    return Products(values, total)


def empty_products(batch: int, entries: int, outputs: int) -> Products:
    """Returns uninitialized memory for the gradients of B samples, [B, K, p]."""
    compiled = installed()
    lanes = 1 if compiled is None else compiled.lanes
    values = POOL.empty(batch, entries, outputs + -outputs % lanes)
    return Products(values[..., :outputs], torch.empty(batch, dtype=torch.float64))

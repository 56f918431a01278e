"""Sums over positions of backprops times entries under a kernel, sample by sample.

Compiled from ``patch_products.c``, where that was done at install time and the
processor has AVX2.  Entries are read where they lie: no patch is copied.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from dpsgd_explorer.dp.kernels.library import compiled_file, opened

#: The library's name, as pyproject.toml has it, without the platform's suffix.
NAME = "_patch_products"
#: Multiply-adds from which a second thread is worth its start.
MANY = 10**7


class Kernel(NamedTuple):
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


class PatchProducts(NamedTuple):
    """The compiled function and the length of its vectors."""

    function: Callable[..., None]
    lanes: int


@cache
def installed() -> PatchProducts | None:
    """Return the function; None if it is not compiled, or not for this processor."""
    file = compiled_file(Path(__file__).parent, NAME)
    return None if file is None else loaded(file)


def loaded(file: Path) -> PatchProducts | None:
    """Return the function of a compiled file; None if this processor is too old."""
    library = opened(file)
    lanes = library.lanes()
    if not lanes:
        return None
    function = library.patch_products
    pointer, size = ctypes.c_void_p, ctypes.c_ssize_t
    function.restype = None
    function.argtypes = (
        *(pointer, size, pointer, size, pointer, size),
        *(pointer, size, size, size),
        *(pointer, size, size, ctypes.c_int, pointer),
    )
    return PatchProducts(function, lanes)


def serves(values: Tensor) -> bool:
    """Whether there is a function, and for such values."""
    if values.dtype is not torch.float32 or values.device.type not in ("cpu", "meta"):
        return False
    return installed() is not None


def patch_products(x: Tensor, g: Tensor, kernel: Kernel) -> Tensor:
    """Return sum_t x[i, start(t) + offset] g[i, :, t], [B, K, p].

    Args:
        x: Entries, contiguous float32 [B, ...].
        g: Backprops, float32 [B, p, T].
        kernel: Which entries each position reads.

    Raises:
        ValueError: ``serves`` says no.
    """
    compiled = installed()
    if compiled is None or not serves(x) or not x.is_contiguous():
        raise ValueError(
            "patch products are of contiguous float32 on the CPU, where they were "
            f"compiled; got {x.dtype} on {x.device}."
        )
    batch, outputs, positions = g.shape
    wide = outputs + -outputs % compiled.lanes
    g = g.to(torch.float32).contiguous()
    sums = x.new_empty(batch, len(kernel.offsets), wide)
    starts, offsets = (
        (ctypes.c_ssize_t * len(numbers))(*numbers)
        for numbers in (kernel.rows, kernel.offsets)
    )

    def fill(first: int, last: int) -> None:
        part, scratch = slice(first, last), x.new_empty(positions, wide)
        compiled.function(
            *(x[part].data_ptr(), x[0].numel(), g[part].data_ptr(), outputs),
            *(sums[part].data_ptr(), last - first, starts, len(starts)),
            *(kernel.width, kernel.step, offsets, len(offsets), wide),
            *(compiled.lanes, scratch.data_ptr()),
        )

    work = sums[0].numel() * positions * batch
    _in_parts(fill, batch, torch.get_num_threads() if work >= MANY else 1)
    return sums[..., :outputs]


def _in_parts(fill: Callable[[int, int], None], size: int, threads: int) -> None:
    """Call ``fill`` on consecutive parts of a range, each in a thread, one in ours."""
    ends = [size * part // threads for part in range(threads + 1)]
    others = [threading.Thread(target=fill, args=part) for part in pairwise(ends[1:])]
    for thread in others:
        thread.start()
    fill(0, ends[1])
    for thread in others:
        thread.join()

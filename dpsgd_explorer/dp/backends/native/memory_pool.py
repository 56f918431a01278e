"""Memory of per-sample gradients that is reused, chunk after chunk.

The gradients of a chunk of the batch are computed, summed and freed, and the next chunk
allocates tensors of the same sizes.  The C library returns freed memory to the system,
which clears every page before it is used again.  This takes longer than to read and sum
the gradients.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from threading import Lock

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[np.float32]

#: Bytes of a pool, at most: up to 20 MiB for a chunk of the batch, and 4 MiB for the
#: small layers of the whole batch, each padded to whole cache lines.
POOL_BYTES = 25 * 2**20
#: Size of a block over the size of the tensor in it.  The last chunk of a batch has
#: fewer samples than the other chunks and reuses their blocks.
MAX_SIZE_RATIO = 4
#: Numbers of a tensor.  The C library itself keeps the memory of smaller tensors.
MIN_NUMBERS = 2**13


@dataclass(eq=False)
class _Block:
    """A block of memory.

    Attributes:
        array: The whole block, aligned like torch's tensors.
        last_array: Returns the array of the block's last tensor, or None if it is gone.
            torch keeps that array alive while a tensor or view uses its memory.
    """

    array: Array
    last_array: Callable[[], Array | None]


class MemoryPool:
    """Allocates float32 tensors in blocks whose last tensor is gone.

    Args:
        max_bytes: Bytes of all blocks, used and free.  torch allocates tensors that do
            not fit.
    """

    def __init__(self, max_bytes: int = POOL_BYTES) -> None:
        self._max_numbers = max_bytes // 4
        self._blocks: list[_Block] = []
        self._lock = Lock()

    def empty(self, *shape: int) -> Tensor:
        """Returns an uninitialized float32 tensor on the CPU, like ``torch.empty``."""
        length = prod(shape)
        if not MIN_NUMBERS <= length <= self._max_numbers:
            return torch.empty(shape)
        with self._lock:
            block = self._pop_block(length)
            if block is None:
                return torch.empty(shape)
            array = block.array[:length].reshape(shape)
            block.last_array = weakref.ref(array)
            self._blocks.append(block)
        return torch.from_numpy(array)

    @property
    def held_numbers(self) -> int:
        """Total size of all blocks, in float32 numbers."""
        return sum(len(block.array) for block in self._blocks)

    def release(self) -> None:
        """Frees all blocks; a block that a tensor uses is freed with the tensor."""
        with self._lock:
            self._blocks = []

    def _pop_block(self, length: int) -> _Block | None:
        """Returns the smallest free block of sufficient size, or a new block.

        None if used blocks leave too little of the pool's bytes.
        """
        free = [block for block in self._blocks if block.last_array() is None]
        free.sort(key=lambda block: len(block.array))
        for block in free:
            if length <= len(block.array) <= MAX_SIZE_RATIO * length:
                self._blocks.remove(block)
                return block
        # A block that is a little too small belonged to a slightly smaller batch: the
        # new block replaces it.
        shorter = [b for b in free if length / 2 <= len(b.array) < length]
        for block in shorter[-1:]:
            self._blocks.remove(block)
            free.remove(block)
        while free and self.held_numbers + length > self._max_numbers:
            self._blocks.remove(free.pop())
        if self.held_numbers + length > self._max_numbers:
            return None
        return _Block(torch.empty(length).numpy(), _no_array)


def _no_array() -> None:
    """Returns None: a new block has had no tensor."""


#: Pool of all engines of this process.
POOL = MemoryPool()

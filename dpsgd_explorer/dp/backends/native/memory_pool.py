"""Memory of per-sample gradients that is used again, piece after piece.

Gradients of a piece of the batch are made, summed and freed, and the next piece asks
for the same sizes.  The C library gives freed memory back to the system, which clears
every page before it hands it out again: that takes longer than to read and sum what was
written there.
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

#: Bytes that a pool holds at most: those of a piece of the batch, up to 20 MiB, and of
#: the small layers of the whole batch, 4 MiB, each padded to whole lines of a cache.
POOL_BYTES = 25 * 2**20
#: How many times longer than a tensor its memory may be: that of the last piece of a
#: batch, which has fewer samples than the others, is theirs.
LONGER = 4
#: Numbers below which the C library keeps what is freed by itself.
SMALL = 2**13


@dataclass(eq=False)
class _Block:
    """A piece of memory.

    Attributes:
        array: All of it; it begins where torch lets tensors begin.
        user: Returns the array that the last tensor was made of, or None.  torch holds
            that array as long as any tensor or view uses its memory.
    """

    array: Array
    user: Callable[[], Array | None]


class MemoryPool:
    """Hands out float32 tensors, in memory whose last tensor is gone.

    Args:
        most_bytes: Bytes to hold, in use or free; other tensors are torch's own.
    """

    def __init__(self, most_bytes: int = POOL_BYTES) -> None:
        self._most = most_bytes // 4
        self._blocks: list[_Block] = []
        self._lock = Lock()

    def empty(self, *shape: int) -> Tensor:
        """Return a float32 tensor on the CPU, its values not set, as torch does."""
        length = prod(shape)
        if not SMALL <= length <= self._most:
            return torch.empty(shape)
        with self._lock:
            block = self._taken(length)
            if block is None:
                return torch.empty(shape)
            array = block.array[:length].reshape(shape)
            block.user = weakref.ref(array)
            self._blocks.append(block)
        return torch.from_numpy(array)

    @property
    def held(self) -> int:
        """The numbers that all of the memory holds."""
        return sum(len(block.array) for block in self._blocks)

    def release(self) -> None:
        """Hold nothing any more; what tensors use is freed with them."""
        with self._lock:
            self._blocks = []

    def _taken(self, length: int) -> _Block | None:
        """Return the shortest free block that is long enough, or a new one.

        None if the blocks that are in use leave no room for it.
        """
        free = [block for block in self._blocks if block.user() is None]
        free.sort(key=lambda block: len(block.array))
        for block in free:
            if length <= len(block.array) <= LONGER * length:
                self._blocks.remove(block)
                return block
        # A batch that is a little larger than the one before takes the place of its
        # memory.
        shorter = [b for b in free if length / 2 <= len(b.array) < length]
        for block in shorter[-1:]:
            self._blocks.remove(block)
            free.remove(block)
        while free and self.held + length > self._most:
            self._blocks.remove(free.pop())
        if self.held + length > self._most:
            return None
        return _Block(torch.empty(length).numpy(), _unused)


def _unused() -> None:
    """The array of a block that has had none."""


#: The memory of all engines of this process.
POOL = MemoryPool()

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

#: Bytes that a pool holds at most: twice what a piece of the batch takes.
POOL_BYTES = 32 * 2**20
#: Numbers below which the C library keeps what is freed by itself.
SMALL = 2**13
#: Lengths are rounded up to four steps per power of two, for batches vary in size.
STEPS_LOG2 = 2


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
        """Give back the memory that no tensor uses."""
        with self._lock:
            self._blocks = [b for b in self._blocks if b.user() is not None]

    def _taken(self, length: int) -> _Block | None:
        """Return the shortest free block that is long enough, or a new one.

        None if the blocks that are in use leave no room for it.
        """
        free = [block for block in self._blocks if block.user() is None]
        fitting = [block for block in free if len(block.array) >= length]
        if fitting:
            found = min(fitting, key=lambda block: len(block.array))
            self._blocks.remove(found)
            return found
        rounded = _rounded(length)
        for block in free:  # the longest unused first
            if self.held + rounded > self._most:
                self._blocks.remove(block)
        if self.held + rounded > self._most:
            return None
        return _Block(torch.empty(rounded).numpy(), _unused)


def _unused() -> None:
    """The array of a block that has had none."""


def _rounded(length: int) -> int:
    """Return the next length of which there are four per power of two."""
    step = 1 << max(0, (length - 1).bit_length() - 1 - STEPS_LOG2)
    return -(-length // step) * step


#: The memory of all engines of this process.
POOL = MemoryPool()

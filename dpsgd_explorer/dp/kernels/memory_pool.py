"""Memory of per-sample gradients that is used again, piece after piece.

Gradients of a piece of the batch are made, summed and freed, and the next piece asks
for the same sizes.  The C library gives freed memory back to the system, which clears
every page before it hands it out again: that takes longer than to read and sum what was
written there.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from math import prod
from threading import Lock
from typing import Any

import torch
from torch import Tensor

#: Bytes that a pool holds at most: twice what a piece of the batch takes.
POOL_BYTES = 32 * 2**20
#: Lengths are rounded up to four steps per power of two, for batches vary in size.
STEPS_LOG2 = 2


@dataclass(eq=False)
class _Block:
    """A piece of memory, and the array that its last tensor was made of.

    torch holds that array as long as any tensor or view uses its memory.
    """

    memory: Tensor
    user: weakref.ref[Any]


class MemoryPool:
    """Hands out float32 tensors, in memory whose last tensor is gone.

    Args:
        most_bytes: Bytes to hold at most; larger tensors are torch's own.
    """

    def __init__(self, most_bytes: int = POOL_BYTES) -> None:
        self._most = most_bytes // 4
        self._blocks: list[_Block] = []
        self._lock = Lock()

    def empty(self, *shape: int) -> Tensor:
        """Return a float32 tensor on the CPU, its values not set, as torch does."""
        length = prod(shape)
        if not 0 < length <= self._most:
            return torch.empty(shape)
        with self._lock:
            memory = self._taken(length)
            array = memory[:length].numpy()
            self._blocks.append(_Block(memory, weakref.ref(array)))
        return torch.from_numpy(array).view(shape)

    def release(self) -> None:
        """Give back the memory that no tensor uses."""
        with self._lock:
            self._blocks = [b for b in self._blocks if b.user() is not None]

    def _taken(self, length: int) -> Tensor:
        """Return the shortest free memory that is long enough, or new memory."""
        free = [block for block in self._blocks if block.user() is None]
        fitting = [block for block in free if len(block.memory) >= length]
        if fitting:
            found = min(fitting, key=lambda block: len(block.memory))
            self._blocks.remove(found)
            return found.memory
        memory = torch.empty(_rounded(length))
        held = sum(len(block.memory) for block in self._blocks) + len(memory)
        for block in free:  # the longest unused first
            if held > self._most:
                self._blocks.remove(block)
                held -= len(block.memory)
        return memory


def _rounded(length: int) -> int:
    """Return the next length of which there are four per power of two."""
    step = 1 << max(0, (length - 1).bit_length() - 1 - STEPS_LOG2)
    return -(-length // step) * step


#: The memory of all engines of this process.
POOL = MemoryPool()

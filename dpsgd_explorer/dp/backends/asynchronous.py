"""Asynchronous devices: reading a value synchronizes with all work queued before it.

A step that reads no value can be queued while the one before still runs.  So on such a
device samples are left out by a weight of 0 instead of by their index, and a condition
that can only raise an error is read a step later.
"""

from __future__ import annotations

from functools import cache
from typing import ClassVar

import torch
from torch import Tensor

from dpsgd_explorer.dp.backends.precision import in_precision
from dpsgd_explorer.dp.backends.torch import TorchBackend

#: The part of a device's memory that instantiated gradients may take.
MEMORY_PART = 16


class AsyncBackend(TorchBackend):
    """Torch's operations on a CUDA device, without reading a value."""

    is_async: ClassVar[bool] = True
    #: A chunk is a few calls, so a sum is one chunk.
    chunk_entries: ClassVar[int] = 2**30

    def chunk_bytes(self, device: torch.device) -> int:
        return _memory_of(device) // MEMORY_PART

    def leave_out(self, values: Tensor, weights: Tensor) -> Tensor:
        """Return [B, ...] with zeros for samples of weight 0; ids are unchanged.

        0 times a number that is not finite is not 0.
        """
        if not values.is_floating_point():
            return values
        kept = (weights != 0.0).view(-1, *[1] * (values.dim() - 1))
        return torch.where(kept, values, values.new_zeros(()))

    def as_computed(self, values: Tensor) -> Tensor:
        """Return an input as autocast gives it to a product."""
        if not torch.is_autocast_enabled(values.device.type):
            return values
        return in_precision(values, torch.get_autocast_dtype(values.device.type))

    def distinct(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        ordered, order = ids.sort()
        new = torch.ones_like(ordered)
        new[1:] = ordered[1:] != ordered[:-1]
        places = new.cumsum(0) - 1
        where = torch.empty_like(places).scatter_(0, order, places)
        return torch.zeros_like(ids).scatter_(0, places, ordered), where


@cache
def _memory_of(device: torch.device) -> int:
    """Return the bytes of a device's memory."""
    return torch.cuda.get_device_properties(device).total_memory


class LateFlag:
    """A condition that a device computes, read without waiting for later work.

    Args:
        flag: A bool without dimensions.
    """

    def __init__(self, flag: Tensor) -> None:
        self._event: torch.cuda.Event | None = None
        if flag.is_cuda:
            self._value = torch.empty((), dtype=torch.bool, pin_memory=True)
            self._value.copy_(flag, non_blocking=True)
            self._event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._event.record()
        else:
            self._value = flag.detach().clone()

    def __bool__(self) -> bool:
        """Wait for this value alone, and return it."""
        if self._event is not None:
            self._event.synchronize()
        return bool(self._value.numpy())

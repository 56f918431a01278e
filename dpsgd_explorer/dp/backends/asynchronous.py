"""Asynchronous devices: Python queues operations, and reading a value waits for them.

A step that reads no value can be queued while the previous step still runs.  For this
reason, samples on such a device are excluded by a weight of 0 instead of by an index,
and a condition that can only raise an error is read one step later (``LateFlag``).
"""

from __future__ import annotations

from functools import cache
from typing import ClassVar

import torch
from torch import Tensor

from dpsgd_explorer.dp.backends.precision import in_precision
from dpsgd_explorer.dp.backends.torch import TorchBackend

#: Per-sample gradients of a chunk may take 1 / MEMORY_DIVISOR of a device's memory.
MEMORY_DIVISOR = 16


class AsyncBackend(TorchBackend):
    """Torch's operations on a CUDA device, without reading a value."""

    is_async: ClassVar[bool] = True
    #: Each chunk costs a few calls, so a sum of up to 2^30 entries is one chunk.
    chunk_entries: ClassVar[int] = 2**30

    def chunk_bytes(self, device: torch.device) -> int:
        return _memory_bytes(device) // MEMORY_DIVISOR

    def leave_out(self, values: Tensor, weights: Tensor) -> Tensor:
        """Returns [B, ...] with zeros for samples of weight 0.

        The weight alone does not exclude a sample, since 0 times infinity is NaN.
        Integers, such as ids, are returned unchanged.
        """
        if not values.is_floating_point():
            return values
        kept = (weights != 0.0).view(-1, *[1] * (values.dim() - 1))
        return torch.where(kept, values, values.new_zeros(()))

    def as_computed(self, values: Tensor) -> Tensor:
        """Returns an input of a product as autocast rounds it."""
        if not torch.is_autocast_enabled(values.device.type):
            return values
        return in_precision(values, torch.get_autocast_dtype(values.device.type))

    def distinct(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        # ``torch.unique`` waits for the device, because the shape of its result depends
        # on the values.  This result has the shape of ``ids``.
        ordered, order = ids.sort()
        is_new = torch.ones_like(ordered)
        is_new[1:] = ordered[1:] != ordered[:-1]
        ranks = is_new.cumsum(0) - 1
        index = torch.empty_like(ranks).scatter_(0, order, ranks)
        return torch.zeros_like(ids).scatter_(0, ranks, ordered), index


@cache
def _memory_bytes(device: torch.device) -> int:
    """Returns the total memory of a device."""
    return torch.cuda.get_device_properties(device).total_memory


class LateFlag:
    """A bool that a device computes, read without waiting for operations queued later.

    Args:
        flag: A bool tensor without dimensions.
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
        """Waits until the device has computed the flag, and returns it."""
        if self._event is not None:
            self._event.synchronize()
        return bool(self._value.numpy())

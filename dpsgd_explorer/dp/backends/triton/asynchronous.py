"""Devices that run behind Python: to read a value there waits for all asked before.

A step that reads nothing can be asked for while the one before it still runs.  So on
such a device samples are left out by a weight of 0, and what can only raise an error is
read a step later.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

#: Types of such devices.
BEHIND = {"cuda"}


def runs_behind(values: Tensor) -> bool:
    """Whether a tensor is on a device that runs behind Python."""
    # A tensor's flag is read in a third of the time that its device takes.
    on_cpu = values.is_cpu and "cpu" not in BEHIND
    return not on_cpu and values.device.type in BEHIND


@cache
def memory_of(device: torch.device) -> int:
    """Return the bytes of a device's memory."""
    return torch.cuda.get_device_properties(device).total_memory


def left_out(values: Tensor, weights: Tensor) -> Tensor:
    """Return [B, ...] with zeros for samples of weight 0, whatever these hold.

    0 times a number that is not finite is not 0.
    """
    kept = (weights != 0.0).view(-1, *[1] * (values.dim() - 1))
    return torch.where(kept, values, values.new_zeros(()))


class LateFlag:
    """Whether a condition holds that a device computes; read without waiting for more.

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

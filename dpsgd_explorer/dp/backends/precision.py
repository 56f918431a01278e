"""The precision in which gradients, norms and sums are held."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from dpsgd_explorer.dp.backends.triton.asynchronous import runs_behind


@cache
def accumulation_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the parameter's dtype, but at least float32."""
    return torch.promote_types(dtype, torch.float32)


def in_precision(values: Tensor, dtype: torch.dtype) -> Tensor:
    """Return floating-point values in this dtype, and others unchanged."""
    same = values.dtype is dtype or not values.is_floating_point()
    return values if same else values.to(dtype)


def as_computed(values: Tensor) -> Tensor:
    """Return an input as autocast gives it to a product, on a device that runs behind.

    On others norms and sums are made of float32 numbers, which need no second copy.
    """
    if not runs_behind(values) or not torch.is_autocast_enabled(values.device.type):
        return values
    return in_precision(values, torch.get_autocast_dtype(values.device.type))

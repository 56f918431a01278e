"""The precision in which gradients, norms and sums are held."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor


@cache
def accumulation_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the parameter's dtype, but at least float32."""
    return torch.promote_types(dtype, torch.float32)


def in_precision(values: Tensor, dtype: torch.dtype) -> Tensor:
    """Return floating-point values in this dtype, and others unchanged."""
    same = values.dtype is dtype or not values.is_floating_point()
    return values if same else values.to(dtype)

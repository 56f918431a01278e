"""Dtypes of gradients, norms and sums."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor


@cache
def accumulation_dtype(dtype: torch.dtype) -> torch.dtype:
    """Returns the dtype of norms and sums: the parameter's, but at least float32."""
    return torch.promote_types(dtype, torch.float32)


def in_precision(values: Tensor, dtype: torch.dtype) -> Tensor:
    """Returns floating-point values in this dtype, and other values unchanged."""
    is_unchanged = values.dtype is dtype or not values.is_floating_point()
    return values if is_unchanged else values.to(dtype)

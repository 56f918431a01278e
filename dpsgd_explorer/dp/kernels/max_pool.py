"""Max pooling with stride 1 as a few maxima of shifted images.

torch walks window by window, and with stride 1 the windows overlap.  Here a window's
maximum is taken along one dimension, then along the other, each as a chain of pairwise
maxima over whole images.  The first of equal entries wins in both, as in torch's own
order through a window, so outputs and gradients are torch's to the last bit.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def max_pool(x: Tensor, kernel_size: tuple[int, int]) -> Tensor:
    """Return the maximum of every window, [B, C, H - k_1 + 1, W - k_2 + 1].

    Args:
        x: [B, C, H, W].
        kernel_size: (k_1, k_2), at most (H, W).
    """
    pooled: Tensor = _ShiftedMaxima.apply(x, kernel_size)  # type: ignore[no-untyped-call]
    return pooled


class _ShiftedMaxima(torch.autograd.Function):
    """Finds the maxima itself, and leaves their gradient to torch."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, kernel_size: tuple[int, int]) -> Tensor:
        """Return the maxima; keep where in each image they are."""
        height, width = kernel_size
        row = x.shape[3]
        inner, columns = _running_maximum(x, None, 3, width, 1)
        maxima, offsets = _running_maximum(inner, columns, 2, height, row)
        ctx.kernel_size = kernel_size
        ctx.save_for_backward(x, _places(maxima, offsets, row))
        return maxima

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        """Send each gradient to the entry that was the maximum."""
        x, places = ctx.saved_tensors
        gradient = torch.ops.aten.max_pool2d_with_indices_backward(
            gradients[0], x, ctx.kernel_size, [1, 1], [0, 0], [1, 1], False, places
        )
        return gradient, None


def _running_maximum(
    x: Tensor, offsets: Tensor | None, dim: int, size: int, step: int
) -> tuple[Tensor, Tensor]:
    """Return the maxima over ``size`` neighbours, and where they are.

    Args:
        x: What to compare.
        offsets: Where each entry of it comes from, if not from its own place.
        dim: Along which neighbours lie.
        size: How many.
        step: From one neighbour to the next, in entries of an image.
    """
    length = x.shape[dim] - size + 1
    if offsets is None:
        offsets = torch.zeros((1,) * x.dim(), dtype=torch.int32).expand(x.shape)
    best, found = x.narrow(dim, 0, length), offsets.narrow(dim, 0, length)
    for shift in range(1, size):
        later = x.narrow(dim, shift, length)
        own = offsets.narrow(dim, shift, length)
        found = torch.where(later > best, own + shift * step, found)
        best = torch.maximum(best, later)
    return best, found


def _places(maxima: Tensor, offsets: Tensor, row: int) -> Tensor:
    """Return the position of each maximum in its image, as torch counts it."""
    height, width = maxima.shape[2:]
    corners = torch.arange(height).unsqueeze(1) * row + torch.arange(width)
    return corners + offsets

"""Max pooling with stride 1 by pairwise maxima of shifted images.

Torch reduces each window separately, although windows with stride 1 overlap.  This
implementation takes the maxima along one dimension, then along the other, each as a
chain of pairwise maxima of whole images.  The first of several equal entries wins, as
in torch's kernel, so outputs and gradients are bit-identical to torch's.

For tensors in the memory format channels last that need a gradient, torch's kernel is
faster and is used.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def max_pool(x: Tensor, kernel_size: tuple[int, int]) -> Tensor:
    """Returns the maximum of every window, [B, C, H - k_1 + 1, W - k_2 + 1].

    Args:
        x: Images, [B, C, H, W].
        kernel_size: Height and width of a window, (k_1, k_2), at most (H, W).
    """
    if not (x.requires_grad and torch.is_grad_enabled()):
        height, width = kernel_size
        return _running_maximum(_running_maximum(x, 3, width), 2, height)
    if x.is_contiguous(memory_format=torch.channels_last):
        return F.max_pool2d(x, kernel_size, 1)
    pooled: Tensor = _ShiftedMaxima.apply(x, kernel_size)  # type: ignore[no-untyped-call]
    return pooled


class _ShiftedMaxima(torch.autograd.Function):
    """Computes the maxima by shifted images, and their gradient by torch's kernel."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, kernel_size: tuple[int, int]) -> Tensor:
        """Returns the maxima, and saves their positions in each image."""
        height, width = kernel_size
        row = x.shape[3]
        farthest = (height - 1) * row + width - 1
        start = torch.zeros((), dtype=_smallest_integer(farthest)).expand(x.shape)
        inner, columns = _running_argmax(x, start, 3, width, 1)
        maxima, offsets = _running_argmax(inner, columns, 2, height, row)
        ctx.kernel_size = kernel_size
        ctx.save_for_backward(x, _positions(maxima, offsets, row))
        return maxima

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        """Returns the gradient of the input."""
        x, positions = ctx.saved_tensors
        gradient = torch.ops.aten.max_pool2d_with_indices_backward(
            gradients[0], x, ctx.kernel_size, [1, 1], [0, 0], [1, 1], False, positions
        )
        return gradient, None


def _running_maximum(x: Tensor, dim: int, size: int) -> Tensor:
    """Returns the maxima over ``size`` neighbors along ``dim``."""
    length = x.shape[dim] - size + 1
    maxima = x.narrow(dim, 0, length)
    for shift in range(1, size):
        maxima = torch.maximum(maxima, x.narrow(dim, shift, length))
    return maxima


def _running_argmax(
    x: Tensor, offsets: Tensor, dim: int, size: int, step: int
) -> tuple[Tensor, Tensor]:
    """Returns the maxima over ``size`` neighbors, and their offsets.

    Offsets are selected by products with 0 or 1, because ``torch.where`` would take
    twenty times as long as all other operations together.

    Args:
        x: Images, [B, C, H, W].
        offsets: Offset of each entry from its source, less than ``step``.
        dim: Dimension of the neighbors.
        size: Number of neighbors.
        step: Distance of two neighbors, in entries of an image.

    Returns:
        Maxima, and the offset of each maximum from the first entry of its window.
    """
    length = x.shape[dim] - size + 1
    maxima, max_offsets = x.narrow(dim, 0, length), offsets.narrow(dim, 0, length)
    for shift in range(1, size):
        later = x.narrow(dim, shift, length)
        # Strictly larger, so that the first of equal entries wins, as in torch.
        wins = (later > maxima).view(torch.int8)
        # A later offset is larger than all earlier offsets, so the maximum selects it.
        later_offsets = offsets.narrow(dim, shift, length) + shift * step
        max_offsets = torch.maximum(max_offsets, wins * later_offsets)
        maxima = torch.maximum(maxima, later)
    return maxima, max_offsets


def _smallest_integer(largest: int) -> torch.dtype:
    """Returns the shortest signed integer dtype whose range includes ``largest``."""
    fits = (t for t in (torch.int8, torch.int16) if largest <= torch.iinfo(t).max)
    return next(fits, torch.int32)


def _positions(maxima: Tensor, offsets: Tensor, row: int) -> Tensor:
    """Returns the position of each maximum in its flattened image."""
    height, width = maxima.shape[2:]
    corners = torch.arange(height).unsqueeze(1) * row + torch.arange(width)
    return corners + offsets

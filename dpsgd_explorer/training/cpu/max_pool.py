"""Max pooling with stride 1 as a few maxima of shifted images.

torch reduces window by window, and with stride 1 the windows overlap.  Here a window's
maximum is taken along one dimension, then along the other, each as a chain of pairwise
maxima over whole images.  The first of equal entries wins in both, as in torch's own
order through a window, so outputs and gradients are torch's to the last bit.

Where a gradient is needed and the channels lie last in memory, torch's kernel is faster
and is used.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def max_pool(x: Tensor, kernel_size: tuple[int, int]) -> Tensor:
    """Return the maximum of every window, [B, C, H - k_1 + 1, W - k_2 + 1].

    Args:
        x: [B, C, H, W].
        kernel_size: (k_1, k_2), at most (H, W).
    """
    if not (x.requires_grad and torch.is_grad_enabled()):
        height, width = kernel_size
        return _running_maximum(_running_maximum(x, 3, width), 2, height)
    if x.is_contiguous(memory_format=torch.channels_last):
        return F.max_pool2d(x, kernel_size, 1)
    pooled: Tensor = _ShiftedMaxima.apply(x, kernel_size)  # type: ignore[no-untyped-call]
    return pooled


class _ShiftedMaxima(torch.autograd.Function):
    """Computes the maxima by shifts, and their gradient by torch's kernel."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, kernel_size: tuple[int, int]) -> Tensor:
        """Return the maxima; save their positions in each image."""
        height, width = kernel_size
        row = x.shape[3]
        farthest = (height - 1) * row + width - 1
        start = torch.zeros((), dtype=_smallest_integer(farthest)).expand(x.shape)
        inner, columns = _running_argmax(x, start, 3, width, 1)
        maxima, offsets = _running_argmax(inner, columns, 2, height, row)
        ctx.kernel_size = kernel_size
        ctx.save_for_backward(x, _places(maxima, offsets, row))
        return maxima

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        """Return the input's gradient: each output's, at the entry of its maximum."""
        x, places = ctx.saved_tensors
        gradient = torch.ops.aten.max_pool2d_with_indices_backward(
            gradients[0], x, ctx.kernel_size, [1, 1], [0, 0], [1, 1], False, places
        )
        return gradient, None


def _running_maximum(x: Tensor, dim: int, size: int) -> Tensor:
    """Return the maxima over ``size`` neighbours along ``dim``."""
    length = x.shape[dim] - size + 1
    best = x.narrow(dim, 0, length)
    for shift in range(1, size):
        best = torch.maximum(best, x.narrow(dim, shift, length))
    return best


def _running_argmax(
    x: Tensor, offsets: Tensor, dim: int, size: int, step: int
) -> tuple[Tensor, Tensor]:
    """Return the maxima over ``size`` neighbours, and their offsets.

    Offsets are chosen by products with 0 or 1: ``torch.where`` on them takes twenty
    times as long as all the rest.

    Args:
        x: [B, C, H, W].
        offsets: Offset of each entry from its source, less than ``step``.
        dim: Dimension of the neighbours.
        size: Number of neighbours.
        step: Distance of two neighbours, in entries of an image.
    """
    length = x.shape[dim] - size + 1
    best, places = x.narrow(dim, 0, length), offsets.narrow(dim, 0, length)
    for shift in range(1, size):
        later = x.narrow(dim, shift, length)
        # Strictly larger: of equal entries the first wins, as in torch.
        wins = (later > best).view(torch.int8)
        later_places = offsets.narrow(dim, shift, length) + shift * step
        # Larger than every earlier offset, so the maximum is that of the winner.
        places = torch.maximum(places, wins * later_places)
        best = torch.maximum(best, later)
    return best, places


def _smallest_integer(largest: int) -> torch.dtype:
    """Return the shortest signed integer type that holds 0 to ``largest``."""
    fits = (t for t in (torch.int8, torch.int16) if largest <= torch.iinfo(t).max)
    return next(fits, torch.int32)


def _places(maxima: Tensor, offsets: Tensor, row: int) -> Tensor:
    """Return the position of each maximum in its image, flattened as torch does."""
    height, width = maxima.shape[2:]
    corners = torch.arange(height).unsqueeze(1) * row + torch.arange(width)
    return corners + offsets

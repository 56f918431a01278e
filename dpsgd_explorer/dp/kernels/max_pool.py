"""Max pooling with stride 1 as a few maxima of shifted images.

torch reduces window by window, and with stride 1 the windows overlap.  Here a window's
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
    """Computes the maxima by shifts, and their gradient by torch's kernel."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, kernel_size: tuple[int, int]) -> Tensor:
        """Return the maxima; save their positions in each image."""
        height, width = kernel_size
        row = x.shape[3]
        inner, columns = _running_maximum(x, None, 3, width, 1)
        maxima, offsets = _running_maximum(inner, columns, 2, height, row)
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


def _running_maximum(
    x: Tensor, offsets: Tensor | None, dim: int, size: int, step: int
) -> tuple[Tensor, Tensor]:
    """Return the maxima over ``size`` neighbours, and their offsets.

    Args:
        x: [B, C, H, W].
        offsets: Offset of each entry from its source; 0 for all if None.
        dim: Dimension of the neighbours.
        size: Number of neighbours.
        step: Distance of two neighbours, in entries of an image.
    """
    length = x.shape[dim] - size + 1
    if offsets is None:
        offsets = torch.zeros((1,) * x.dim(), dtype=torch.int32).expand(x.shape)
    best, places = x.narrow(dim, 0, length), offsets.narrow(dim, 0, length)
    for shift in range(1, size):
        later = x.narrow(dim, shift, length)
        later_places = offsets.narrow(dim, shift, length)
        # Strictly larger: of equal entries the first wins, as in torch.
        places = torch.where(later > best, later_places + shift * step, places)
        best = torch.maximum(best, later)
    return best, places


def _places(maxima: Tensor, offsets: Tensor, row: int) -> Tensor:
    """Return the position of each maximum in its image, flattened as torch does."""
    height, width = maxima.shape[2:]
    corners = torch.arange(height).unsqueeze(1) * row + torch.arange(width)
    return corners + offsets

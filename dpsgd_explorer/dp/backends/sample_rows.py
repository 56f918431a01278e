"""Per-sample gradients as rows of a matrix, with the entries in memory order."""

from __future__ import annotations

from torch import Tensor


def memory_order(gradient: Tensor) -> list[int]:
    """Returns all dimensions but the first, from the largest stride to the smallest.

    A matrix product may give the gradient of a convolution in another memory order than
    the weight's.  Norms do not depend on the order.  A weighted sum is permuted once,
    after the samples are added.
    """
    strides = gradient.stride()
    return sorted(range(1, gradient.dim()), key=lambda d: -strides[d])


def sample_rows(gradient: Tensor) -> Tensor:
    """Returns [B, *shape] as [B, P], entries in memory order; a view if possible."""
    if gradient.dim() == 1:  # The parameter is a single number.
        return gradient.unsqueeze(1)
    if gradient.is_contiguous():
        return gradient.flatten(1)
    return gradient.permute(0, *memory_order(gradient)).flatten(1)

"""Per-sample gradients as rows of a matrix, in whatever order they lie in memory.

A matrix product leaves the gradient of a convolution in another order than its weight
has.  Norms do not care, and a weighted sum is turned round once for all samples.
"""

from __future__ import annotations

from torch import Tensor


def memory_order(gradient: Tensor) -> list[int]:
    """Return the dimensions after the first, from the widest stride to the smallest."""
    strides = gradient.stride()
    return sorted(range(1, gradient.dim()), key=lambda d: -strides[d])


def sample_rows(gradient: Tensor) -> Tensor:
    """Return [B, *shape] as [B, P], entries in memory order: a view if there is one."""
    if gradient.dim() == 1:  # of a parameter that is one number
        return gradient.unsqueeze(1)
    if gradient.is_contiguous():
        return gradient.flatten(1)
    return gradient.permute(0, *memory_order(gradient)).flatten(1)


def add_weighted_rows(gradient: Tensor, weights: Tensor, total: Tensor) -> None:
    """Add sum_i weights[i] * gradient[i] to ``total``, of one gradient's shape."""
    if gradient.is_contiguous():
        total.view(-1).addmv_(sample_rows(gradient).t(), weights)
        return
    order = memory_order(gradient)
    ordered = gradient.permute(0, *order)
    row = ordered.flatten(1).t() @ weights
    total.permute([d - 1 for d in order]).add_(row.view(ordered.shape[1:]))

"""Gradients of samples as rows of numbers, in the order in which they lie in memory."""

from __future__ import annotations

from torch import Tensor


def memory_order(gradient: Tensor) -> list[int]:
    """Return the dimensions after the first, from the widest stride to the smallest.

    A matrix product gives the gradient of a convolution in another memory order than
    its weight has.  A norm does not depend on the order; a weighted sum is permuted
    once, after the samples are added.
    """
    strides = gradient.stride()
    return sorted(range(1, gradient.dim()), key=lambda d: -strides[d])


def sample_rows(gradient: Tensor) -> Tensor:
    """Return [B, *shape] as [B, P], entries in memory order: a view if there is one."""
    if gradient.dim() == 1:  # of a parameter that is one number
        return gradient.unsqueeze(1)
    if gradient.is_contiguous():
        return gradient.flatten(1)
    return gradient.permute(0, *memory_order(gradient)).flatten(1)

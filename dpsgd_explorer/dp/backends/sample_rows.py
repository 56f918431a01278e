"""Gradients of samples as rows of numbers, in the order in which they lie in memory."""

from __future__ import annotations

import torch
from torch import Tensor

from dpsgd_explorer.dp.backends.native.weighted_sum import add_weighted_sum
from dpsgd_explorer.dp.backends.precision import in_precision
from dpsgd_explorer.dp.backends.triton.asynchronous import left_out, runs_behind


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


def add_weighted_rows(gradient: Tensor, weights: Tensor, total: Tensor) -> None:
    """Add sum_i weights[i] * gradient[i] to ``total``, of one gradient's shape.

    On a device that runs behind, a weight of 0 leaves a sample out.
    """
    weights = in_precision(weights, total.dtype)
    if gradient.is_contiguous():
        add_weighted_sum(sample_rows(gradient), weights, total.view(-1))
        return
    if runs_behind(gradient):
        gradient = left_out(gradient, weights)
    # Whole runs are copied next to where they belong: added from there, entry by entry,
    # they are in cache.  For 256 channels a kernel of 3 by 3 takes 0.6 ms, not 2.2.
    order = memory_order(gradient)
    inner = order[-1]
    near = [*sorted(order[:-1]), inner]
    if len(gradient) == 1:  # a product instead of a sum: one pass less
        runs = gradient[0].permute([d - 1 for d in near])
        row = runs.new_empty(runs.shape)
        torch.mul(runs, weights, out=row)
    else:
        ordered = gradient.permute(0, *order)
        summed = ordered.new_zeros(ordered.shape[1:])
        add_weighted_sum(ordered.flatten(1), weights, summed.view(-1))
        row = summed.permute([order.index(d) for d in near]).contiguous()
    total.add_(row.movedim(-1, inner - 1))

"""Sums over rows and positions by compiled kernels, where Triton is and a device."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor

#: Roundings of a sum of squares: 8 in turn, 11 in pairs, the square, and the total's.
ROUNDINGS = 24
#: Dtypes of what is read; sums are float32.
DTYPES = (torch.float32, torch.bfloat16)


@cache
def installed() -> bool:
    """Whether there is a compiler for kernels."""
    return find_spec("triton") is not None


def serves(*tensors: Tensor) -> bool:
    """Whether the kernels take such tensors."""
    return (
        all(t.is_cuda and t.is_contiguous() and t.dtype in DTYPES for t in tensors)
        and installed()
    )


def add_weighted_sum(rows: Tensor, weights: Tensor, total: Tensor) -> None:
    """Add sum_i weights[i] rows[i] to ``total``, leaving out rows of weight 0.

    Args:
        rows: Contiguous, [B, P].
        weights: float32 [B].
        total: Contiguous float32, [P].
    """
    from dpsgd_explorer.dp.accelerator import row_kernels as kernels

    samples, numbers = rows.shape
    if samples and numbers:
        grid = (-(-numbers // kernels.COLUMNS),)
        kernels.weighted_sum[grid](
            rows, weights, total, samples, numbers, COLUMNS=kernels.COLUMNS
        )


def square_sums(rows: Tensor) -> Tensor:
    """Return the sums of squares of [B, P], float64 [B], with ROUNDINGS roundings.

    Args:
        rows: Contiguous.
    """
    from dpsgd_explorer.dp.accelerator import row_kernels as kernels

    samples, numbers = rows.shape
    chunks = -(-numbers // kernels.CHUNK)
    sums = rows.new_empty(samples, chunks, dtype=torch.float32)
    if samples and chunks:
        kernels.square_sums[samples, chunks](
            rows, sums, numbers, CHUNK=kernels.CHUNK, BLOCK=kernels.BLOCK
        )
    return sums.sum(1, dtype=torch.float64)


def layer_norm_sums(
    x: Tensor, g: Tensor, eps: float, *, centred: bool
) -> tuple[Tensor, Tensor]:
    """Return sums over positions of g xhat and of g, float32 [B, D] each.

    Args:
        x: Inputs, contiguous [B, T, D].
        g: Gradients of the outputs, contiguous [B, T, D].
        eps: Added to the variance.
        centred: Whether the mean is taken off, as by a layer norm.
    """
    from dpsgd_explorer.dp.accelerator import row_kernels as kernels

    samples, positions, entries = x.shape
    chunks = max(1, -(-positions // kernels.POSITIONS))
    sums = x.new_empty(samples, chunks, 2, entries, dtype=torch.float32)
    if samples:
        kernels.layer_norm_sums[samples, chunks](
            *(x, g, sums, positions, entries, eps),
            CENTRED=centred,
            POSITIONS=kernels.POSITIONS,
            ROWS=kernels.ROWS,
            ENTRIES=1 << (entries - 1).bit_length(),
        )
    of_weight, of_bias = sums.sum(1).unbind(1)
    return of_weight, of_bias

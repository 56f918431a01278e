"""Per-sample weight gradients of convolutions, with the compiled loop over positions.

``patch_products`` reads the entries of each patch from the input, and copies no patch.
It takes about as long as torch's gradient of the whole batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from math import prod

import torch
import torch.nn.functional as F
from torch import Tensor

from dpsgd_explorer.dp.backends.convolution import (
    CACHE_BYTES,
    Convolution,
    SampleGradients,
    Windows,
    by_group,
    in_weight_order,
)
from dpsgd_explorer.dp.backends.native import patch_products as loop
from dpsgd_explorer.dp.backends.native.patch_products import (
    ROUNDINGS,
    Kernel,
    Products,
    empty_products,
    patch_products,
)
from dpsgd_explorer.dp.backends.rounding import EXTRA_ROUNDINGS, gamma, underflow_bound

#: Output channels of a group.  With fewer, most numbers of a vector would be unused.
MIN_OUTPUTS = 8
#: Factor that makes a squared norm of the loop an upper bound.
NORM_MARGIN = 1 + gamma(ROUNDINGS + EXTRA_ROUNDINGS, torch.float32)


def is_supported(x: Tensor, g: Tensor, layer: Convolution) -> bool:
    """Returns True if the loop supports these tensors and is the fastest method.

    A kernel with one entry needs no patches: torch's product is faster.
    """
    outputs = g.shape[1] // layer.groups
    is_fastest = outputs >= MIN_OUTPUTS and prod(layer.kernel_size) > 1
    return is_fastest and len(x) > 0 and loop.is_supported(x)


def gradients(
    x: Tensor, g: Tensor, layer: Convolution, sides: Sequence[int]
) -> SampleGradients:
    """Returns the per-sample gradients of the weight, and their squared norms.

    Args:
        x: Inputs, [B, C, *size].
        g: Gradients of the outputs, [B, p, *positions].
        layer: Settings of the convolution.
        sides: Widths of the zero padding of each sample, in the order of ``F.pad``.
    """
    batch, groups = len(x), layer.groups
    windows = Windows(g.shape[2:], layer)
    products = _products(by_group(x, groups), by_group(g, groups), windows, sides)
    values = in_weight_order(products.values, batch)
    upper = products.squares.view(batch, groups).sum(1).mul_(NORM_MARGIN)
    upper.add_(underflow_bound(values[0].numel(), x.dtype))
    return SampleGradients(values, upper.to(x.dtype))


def _products(x: Tensor, g: Tensor, windows: Windows, sides: Sequence[int]) -> Products:
    """Returns gradients [B, k_1, p, k_2 .. k_n, C] and their squared norms.

    The batch is padded in chunks of a few samples, so that the padded copy is still in
    cache when the loop reads it.
    """
    batch, depth, g = len(x), x.shape[1], g.flatten(2)
    entries = prod(windows.kernel_size) * depth
    values, squares = empty_products(batch, entries, g.shape[1])
    sample_bytes = g.element_size() * x[0].numel()
    chunk_samples = max(1, CACHE_BYTES // sample_bytes) if any(sides) else batch
    for start in range(0, batch, chunk_samples):
        chunk = slice(start, start + chunk_samples)
        inputs = F.pad(x[chunk], list(sides)) if any(sides) else x
        inputs = inputs.contiguous()
        steps = windows.out, windows.kernel_size, windows.stride, windows.dilation
        kernel = _kernel(inputs.stride()[1:], depth, *steps)
        patch_products(
            inputs, g[chunk], kernel, Products(values[chunk], squares[chunk])
        )
    shape = *windows.kernel_size, depth
    return Products(values.unflatten(1, shape).movedim(-1, 2), squares)  # type: ignore[no-untyped-call]


@lru_cache(maxsize=256)
def _kernel(
    strides: tuple[int, ...],
    depth: int,
    out: tuple[int, ...],
    kernel_size: tuple[int, ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
) -> Kernel:
    """Returns the memory offsets of a sample's patches, with channels last in each.

    Args:
        strides: Memory strides of the channels and of the spatial dimensions.
        depth: Number of channels.
        out: Positions per dimension.
        kernel_size: Kernel size per dimension.
        stride: Stride of the convolution per dimension.
        dilation: Dilation of the convolution per dimension.
    """
    channel, *steps = strides
    position_steps = [s * step for s, step in zip(stride, steps, strict=True)]
    entry_steps = [d * step for d, step in zip(dilation, steps, strict=True)]
    rows = _offsets(position_steps[:-1], out[:-1])
    offsets = _offsets([*entry_steps, channel], [*kernel_size, depth])
    return Kernel(rows, out[-1], position_steps[-1], offsets)


def _offsets(steps: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """Returns sum_d index_d * steps_d for all indices, the last dimension fastest."""
    return [
        sum(i * step for i, step in zip(index, steps, strict=True))
        for index in product(*map(range, sizes))
    ]

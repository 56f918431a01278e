"""Per-sample weight gradients of a convolution by the compiled loop over positions.

``patch_products`` reads entries where they lie: no patch is copied.  It takes about as
long as torch's gradient of the whole batch.
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
    patch_products,
    room,
)
from dpsgd_explorer.dp.backends.rounding import AROUND, gamma, underflow_bound

#: Output channels of a group below which most of a vector is empty.
FEW_OUTPUTS = 8
#: Most by which rounding shortens a squared norm that was computed on the way.
_OF_SQUARES = gamma(ROUNDINGS + AROUND, torch.float32)


def is_supported(x: Tensor, g: Tensor, layer: Convolution) -> bool:
    """Return True if the loop takes such tensors and is the quickest method."""
    outputs = g.shape[1] // layer.groups
    wide = outputs >= FEW_OUTPUTS and prod(layer.kernel_size) > 1
    return wide and len(x) > 0 and loop.is_supported(x)


def gradients(
    x: Tensor, g: Tensor, layer: Convolution, sides: Sequence[int]
) -> SampleGradients:
    """Return the weight gradient of every sample, and its squared norm.

    Args:
        x: Inputs, [B, C, *size].
        g: Output gradients, [B, p, *positions].
        layer: The settings.
        sides: Zeros to put around each sample, as ``F.pad`` counts them.
    """
    batch, groups = len(x), layer.groups
    windows = Windows(g.shape[2:], layer)
    made, squares = _directly(by_group(x, groups), by_group(g, groups), windows, sides)
    values = in_weight_order(made, batch)
    upper = squares.view(batch, groups).sum(1).mul_(1 + _OF_SQUARES)
    upper.add_(underflow_bound(values[0].numel(), x.dtype))
    return SampleGradients(values, upper.to(x.dtype))


def _directly(x: Tensor, g: Tensor, windows: Windows, sides: Sequence[int]) -> Products:
    """Return [B, k_1, p, k_2 .. k_n, C] and squared norms.

    Few samples are padded at once: their copy is still in cache when it is read.
    """
    batch, depth, g = len(x), x.shape[1], g.flatten(2)
    values, squares = room(batch, prod(windows.kernel_size) * depth, g.shape[1])
    sample_bytes = g.element_size() * x[0].numel()
    at_once = max(1, CACHE_BYTES // sample_bytes) if any(sides) else batch
    for start in range(0, batch, at_once):
        part = slice(start, start + at_once)
        read = F.pad(x[part], list(sides)) if any(sides) else x
        read = read.contiguous()
        steps = windows.out, windows.kernel_size, windows.stride, windows.dilation
        kernel = _kernel(read.stride()[1:], depth, *steps)
        patch_products(read, g[part], kernel, Products(values[part], squares[part]))
    entries = *windows.kernel_size, depth
    return Products(values.unflatten(1, entries).movedim(-1, 2), squares)  # type: ignore[no-untyped-call]


@lru_cache(maxsize=256)
def _kernel(
    strides: tuple[int, ...],
    depth: int,
    out: tuple[int, ...],
    kernel_size: tuple[int, ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
) -> Kernel:
    """Return where the entries of a sample lie, its channels last in each patch.

    Args:
        strides: In memory, of the channels and of the spatial dimensions.
        depth: Channels.
        out: Positions per dimension.
        kernel_size: One number per dimension, as in stride and dilation.
        stride: Stride of the layer.
        dilation: Dilation of the layer.
    """
    channel, *steps = strides
    moves = [s * step for s, step in zip(stride, steps, strict=True)]
    holes = [d * step for d, step in zip(dilation, steps, strict=True)]
    rows = _sums_of(moves[:-1], out[:-1])
    offsets = _sums_of([*holes, channel], [*kernel_size, depth])
    return Kernel(rows, out[-1], moves[-1], offsets)


def _sums_of(steps: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """Return the sum of index times step for all indices, the last running fastest."""
    return [
        sum(i * step for i, step in zip(index, steps, strict=True))
        for index in product(*map(range, sizes))
    ]

"""Per-sample weight gradients of a convolution, in one to three dimensions.

The gradient of sample i is G_i U_i^T, with U_i the patches under each of its output
positions.  Four methods compute the product:

- *direct*: a loop over positions, compiled, that reads entries where they lie
  (``kernels.patch_products``).  It takes about as long as torch's gradient of the whole
  batch, and is there for float32 on processors with AVX2, where it was compiled.
- *rows*: one copy of the image per kernel offset in all but the first spatial
  dimension.  In such a copy the positions under a kernel row are consecutive, so each
  kernel row is one matrix product on a slice.  It copies k_1 times less than patches.
- *patches*: all patches are copied, and one batched product does the rest, in fewer
  calls: the calls dominate where each is small.
- *grouped*: torch's own gradient of one convolution in which the samples are groups,
  side by side in the channels.  It copies nothing, and how quick it is depends on the
  processor: for depthwise convolutions up to 15 times quicker than the others, for wide
  channels up to 3 times slower.

All cost as many multiply-adds as the gradient of the whole batch.  ``estimated_method``
chooses by constants.

Source: Rochette et al. (2019), arXiv:1912.06015 (the grouped convolution).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from math import prod
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from dpsgd_explorer.dp.backends.native.patch_products import (
    ROUNDINGS,
    Kernel,
    Products,
    patch_products,
    room,
    serves,
)
from dpsgd_explorer.dp.layers.base import gradient_squared_norms
from dpsgd_explorer.dp.layers.round_off import AROUND, gamma

METHODS = ("rows", "patches", "grouped", "direct")

#: Copied entries of patches per sample that take as long as one more matrix product.
CALL = 4000
#: Columns of a kernel row's product, k_2 .. k_n C/G, below which it is slow.
NARROW = 32
#: Bytes of copies in memory at once, so that they stay in cache.
CACHE_BYTES = 4 * 2**20
#: Output channels of a group below which most of a vector is empty.
FEW_OUTPUTS = 8

#: Most by which rounding shortens a squared norm that was made on the way.
_OF_SQUARES = gamma(ROUNDINGS + AROUND, torch.float32)


class SampleGradients(NamedTuple):
    """Weight gradients of a batch.

    Attributes:
        values: [B, p, C/G, *kernel_size].
        squared_norms: Never too small, [B]; None if they were not made on the way.
    """

    values: Tensor
    squared_norms: Tensor | None

    def norms(self) -> Tensor:
        """Return the squared norms, [B]."""
        if self.squared_norms is None:
            return gradient_squared_norms({"weight": self.values})
        return self.squared_norms


def convolution_gradients(
    x: Tensor,
    g: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    method: str = "",
    sides: Sequence[int] = (),
) -> SampleGradients:
    """Return the weight gradient of every sample.

    Args:
        x: Inputs, [B, C, *size].
        g: Output gradients, [B, p, *positions].
        kernel_size: One number per dimension, as in stride and dilation.
        stride: Stride of the layer.
        dilation: Dilation of the layer.
        groups: G.
        method: One of METHODS; the estimated one if not given.
        sides: Zeros to put around each sample, as ``F.pad`` counts them.
    """
    batch, depth, outputs = len(x), x.shape[1] // groups, g.shape[1] // groups
    shape = batch, groups * outputs, depth, *kernel_size
    if batch == 0:
        return SampleGradients(x.new_zeros(shape), None)
    windows = _Windows(g.shape[2:], kernel_size, stride, dilation)
    method = method or estimated_method(
        windows.positions, kernel_size, depth, groups, outputs if serves(x) else 0
    )
    if method != "direct" and any(sides):
        x, sides = F.pad(x, list(sides)), ()
    if method == "grouped":
        values = _by_groups(x, g, kernel_size, stride, dilation, groups)
        return SampleGradients(values, None)
    x, g = _by_group(x, groups), _by_group(g, groups)
    norms = None
    if method == "direct":
        gradients, squares = _directly(x, g, windows, sides)
        upper = squares.view(batch, groups).sum(1).mul_(1 + _OF_SQUARES)
        norms = upper.to(x.dtype)
    else:
        make = _by_patches if method == "patches" else _by_rows
        gradients = make(x, g, windows)  # [B G, k_1, p/G, k_2 .. k_n, C/G]
    dims = len(kernel_size)
    kernel_dims = (1, *range(3, 2 + dims))
    ordered = gradients.permute(0, 2, 2 + dims, *kernel_dims)
    return SampleGradients(ordered.reshape(shape), norms)


def estimated_method(
    positions: int,
    kernel_size: Sequence[int],
    depth: int,
    groups: int,
    direct_outputs: int = 0,
) -> str:
    """Return the method that is likely to be the quickest.

    Args:
        positions: Output positions of a sample.
        kernel_size: One number per dimension.
        depth: Input channels of a group, C/G.
        groups: G.
        direct_outputs: Output channels of a group, p/G; 0 where nothing is compiled.
    """
    if direct_outputs >= FEW_OUTPUTS and prod(kernel_size) > 1:
        return "direct"
    if depth == 1 < groups:
        return "grouped"
    columns = depth * prod(kernel_size[1:])
    is_narrow = len(kernel_size) > 1 and columns < NARROW
    patch_entries = positions * kernel_size[0] * columns
    return "patches" if is_narrow or patch_entries < CALL * kernel_size[0] else "rows"


class _Windows:
    """The inputs under each kernel offset."""

    def __init__(
        self,
        out: Sequence[int],
        kernel_size: Sequence[int],
        stride: Sequence[int],
        dilation: Sequence[int],
    ) -> None:
        self.out, self.kernel_size = tuple(out), tuple(kernel_size)
        self.stride, self.dilation = tuple(stride), tuple(dilation)
        self.positions = prod(out)
        self.patch_entries = self.positions * prod(kernel_size)

    def under(self, dim: int, offset: int) -> slice:
        """Return the inputs under one kernel offset of a spatial dimension."""
        first, step = offset * self.dilation[dim], self.stride[dim]
        return slice(first, first + (self.out[dim] - 1) * step + 1, step)

    def inner_offsets(self) -> list[tuple[slice, ...]]:
        """Return the slices of all but the first dimension, offset by offset."""
        offsets = product(*map(range, self.kernel_size[1:]))
        return [
            tuple(self.under(dim, o) for dim, o in enumerate(offset, start=1))
            for offset in offsets
        ]


def _directly(
    x: Tensor, g: Tensor, windows: _Windows, sides: Sequence[int]
) -> Products:
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


def _by_group(values: Tensor, groups: int) -> Tensor:
    """Return [B, C, *size] as [B G, C/G, *size]."""
    batch, channels, *size = values.shape
    return values.reshape(batch * groups, channels // groups, *size)


def _sums_of(steps: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """Return the sum of index times step for all indices, the last running fastest."""
    return [
        sum(i * step for i, step in zip(index, steps, strict=True))
        for index in product(*map(range, sizes))
    ]


def _by_rows(x: Tensor, g: Tensor, windows: _Windows) -> Tensor:
    rows, outputs, depth = windows.kernel_size[0], g.shape[1], x.shape[1]
    inner = windows.inner_offsets()
    gradients = x.new_empty(len(x), rows, outputs, len(inner) * depth)
    sample_bytes = x[0].numel() * len(inner) * x.element_size()
    at_once = max(1, CACHE_BYTES // sample_bytes)
    for start in range(0, len(x), at_once):
        part = slice(start, start + at_once)
        _fill_rows(gradients[part], x[part], g[part].flatten(2), windows, inner)
    return gradients.view(len(x), rows, outputs, *windows.kernel_size[1:], depth)


def _fill_rows(
    gradients: Tensor,
    x: Tensor,
    g: Tensor,
    windows: _Windows,
    inner: Sequence[tuple[slice, ...]],
) -> None:
    """Write the gradients [b, k_1, p, K C] of a few samples, kernel row by row."""
    step, wide = windows.stride[0], windows.positions // windows.out[0]
    # Kernel rows of one phase (offset modulo stride) read the same copy, shifted.
    copies: dict[int, Tensor] = {}
    for row in range(windows.kernel_size[0]):
        start, phase = divmod(row * windows.dilation[0], step)
        if phase not in copies:
            every = (slice(None), slice(None), slice(phase, None, step))
            views = [x[(*every, *window)].flatten(2) for window in inner]
            copies[phase] = torch.stack(views, 1).flatten(1, 2)
        under = copies[phase][..., start * wide :][..., : windows.positions]
        torch.bmm(g, under.transpose(1, 2), out=gradients[:, row])


def _by_patches(x: Tensor, g: Tensor, windows: _Windows) -> Tensor:
    sample_bytes = x.shape[1] * windows.patch_entries * x.element_size()
    at_once = max(1, CACHE_BYTES // max(1, sample_bytes))
    outputs, depth = g.shape[1], x.shape[1]
    gradients = x.new_empty(len(x), outputs, prod(windows.kernel_size) * depth)
    for start in range(0, len(x), at_once):
        part = slice(start, start + at_once)
        patches = _patches(x[part], windows)
        torch.bmm(g[part].flatten(2), patches.transpose(1, 2), out=gradients[part])
    shape = len(x), outputs, *windows.kernel_size, depth
    return gradients.view(shape).transpose(1, 2)


def _patches(x: Tensor, windows: _Windows) -> Tensor:
    """Return a copy of the patch of each position, [b, K C, T]."""
    sizes = [*windows.kernel_size, x.shape[1], *windows.out]
    steps = x.stride()[2:]
    view = x.as_strided(
        (len(x), *sizes),
        (
            x.stride(0),
            *(s * d for s, d in zip(steps, windows.dilation, strict=True)),
            x.stride(1),
            *(s * d for s, d in zip(steps, windows.stride, strict=True)),
        ),
        x.storage_offset(),
    )
    return view.reshape(len(x), -1, windows.positions)


def _by_groups(
    x: Tensor,
    g: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    """Return [B, p, C/G, *kernel_size], as a convolution of B times G groups."""
    batch, depth, outputs = len(x), x.shape[1] // groups, g.shape[1]
    weight = x.new_empty(batch * outputs, depth, *kernel_size)
    zeros = [0] * len(kernel_size)
    gradient: Tensor = torch.ops.aten.convolution_backward(
        g.reshape(1, batch * outputs, *g.shape[2:]),
        x.reshape(1, batch * x.shape[1], *x.shape[2:]),
        weight,
        None,
        list(stride),
        zeros,
        list(dilation),
        False,
        zeros,
        batch * groups,
        [False, True, False],
    )[1]
    return gradient.reshape(batch, outputs, depth, *kernel_size)

"""Per-sample weight gradients of a convolution, in one to three dimensions, by torch.

The gradient of sample i is G_i U_i^T, with U_i the patches under each of its output
positions.  Three methods compute the product:

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
from itertools import product
from math import prod
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

METHODS = ("rows", "patches", "grouped")

#: Copied entries of patches per sample that take as long as one more matrix product.
CALL = 4000
#: Columns of a kernel row's product, k_2 .. k_n C/G, below which it is slow.
NARROW = 32
#: Bytes of copies in memory at once, so that they stay in cache.
CACHE_BYTES = 4 * 2**20


class Convolution(NamedTuple):
    """The settings of a convolution, one number per dimension.

    Attributes:
        kernel_size: k_1 .. k_n.
        stride: Steps between neighbouring positions.
        dilation: Steps between neighbouring entries of a patch.
        groups: G.
    """

    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int


class SampleGradients(NamedTuple):
    """Weight gradients of a batch.

    Attributes:
        values: [B, p, C/G, *kernel_size].
        squared_norms: Never too small, [B]; None if they were not computed on the way.
    """

    values: Tensor
    squared_norms: Tensor | None


def gradients(
    x: Tensor,
    g: Tensor,
    layer: Convolution,
    sides: Sequence[int] = (),
    method: str = "",
) -> Tensor:
    """Return the weight gradient of every sample, [B, p, C/G, *kernel_size].

    Args:
        x: Inputs, [B, C, *size].
        g: Output gradients, [B, p, *positions].
        layer: The settings.
        sides: Zeros to put around each sample, as ``F.pad`` counts them.
        method: One of METHODS; the estimated one if not given.
    """
    groups = layer.groups
    batch, depth, outputs = len(x), x.shape[1] // groups, g.shape[1] // groups
    if batch == 0:
        return x.new_zeros(0, groups * outputs, depth, *layer.kernel_size)
    windows = Windows(g.shape[2:], layer)
    method = method or estimated_method(
        windows.positions, layer.kernel_size, depth, groups
    )
    if any(sides):
        x = F.pad(x, list(sides))
    if method == "grouped":
        return _by_groups(x, g, layer)
    make = _by_patches if method == "patches" else _by_rows
    made = make(by_group(x, groups), by_group(g, groups), windows)
    return in_weight_order(made, batch)


def estimated_method(
    positions: int, kernel_size: Sequence[int], depth: int, groups: int
) -> str:
    """Return the method that is likely to be the quickest.

    Args:
        positions: Output positions of a sample.
        kernel_size: One number per dimension.
        depth: Input channels of a group, C/G.
        groups: G.
    """
    if depth == 1 < groups:
        return "grouped"
    columns = depth * prod(kernel_size[1:])
    is_narrow = len(kernel_size) > 1 and columns < NARROW
    patch_entries = positions * kernel_size[0] * columns
    return "patches" if is_narrow or patch_entries < CALL * kernel_size[0] else "rows"


def in_weight_order(made: Tensor, batch: int) -> Tensor:
    """Return [B G, k_1, p/G, k_2 .. k_n, C/G] as [B, p, C/G, k_1 .. k_n]."""
    dims = made.dim() - 3
    ordered = made.permute(0, 2, 2 + dims, 1, *range(3, 2 + dims))
    _, outputs, depth, *kernel_size = ordered.shape
    groups = len(made) // batch
    return ordered.reshape(batch, groups * outputs, depth, *kernel_size)


class Windows:
    """The inputs under each kernel offset.

    Args:
        out: Output positions of each dimension.
        layer: The settings.
    """

    def __init__(self, out: Sequence[int], layer: Convolution) -> None:
        self.out, self.kernel_size = tuple(out), tuple(layer.kernel_size)
        self.stride, self.dilation = tuple(layer.stride), tuple(layer.dilation)
        self.positions = prod(out)
        self.patch_entries = self.positions * prod(layer.kernel_size)

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


def by_group(values: Tensor, groups: int) -> Tensor:
    """Return [B, C, *size] as [B G, C/G, *size]."""
    batch, channels, *size = values.shape
    return values.reshape(batch * groups, channels // groups, *size)


def _by_rows(x: Tensor, g: Tensor, windows: Windows) -> Tensor:
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
    windows: Windows,
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


def _by_patches(x: Tensor, g: Tensor, windows: Windows) -> Tensor:
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


def _patches(x: Tensor, windows: Windows) -> Tensor:
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


def _by_groups(x: Tensor, g: Tensor, layer: Convolution) -> Tensor:
    """Return [B, p, C/G, *kernel_size], as a convolution of B times G groups."""
    kernel_size, groups = layer.kernel_size, layer.groups
    batch, depth, outputs = len(x), x.shape[1] // groups, g.shape[1]
    weight = x.new_empty(batch * outputs, depth, *kernel_size)
    zeros = [0] * len(kernel_size)
    gradient: Tensor = torch.ops.aten.convolution_backward(
        g.reshape(1, batch * outputs, *g.shape[2:]),
        x.reshape(1, batch * x.shape[1], *x.shape[2:]),
        weight,
        None,
        list(layer.stride),
        zeros,
        list(layer.dilation),
        False,
        zeros,
        batch * groups,
        [False, True, False],
    )[1]
    return gradient.reshape(batch, outputs, depth, *kernel_size)

"""Per-sample weight gradients of convolutions in one to three dimensions, with torch.

The gradient of sample i is G_i U_i^T.  G_i are the gradients of its outputs, and U_i
the patches under each of its output positions.  Three methods compute the product:

- *rows*: copies the image once per kernel offset in all but the first spatial
  dimension.  In such a copy the positions under a kernel row are consecutive, so each
  kernel row is one matrix product on a slice.  The copies are k_1 times smaller than
  all patches.
- *patches*: copies all patches, and computes one batched product.  This method needs
  the fewest calls, which take most of the time of a small layer.
- *grouped*: calls torch's gradient of one convolution, whose groups of channels are the
  samples.  This method copies nothing.  Its speed depends on the processor:
  depthwise convolutions are up to 15 times faster than with the other methods, and
  convolutions of many channels up to 3 times slower.

Each method needs the multiply-adds of the ordinary gradient of the batch.
``estimated_method`` chooses one from the shape.

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

#: Entries per sample whose copy takes as long as one more matrix product.  *patches* is
#: chosen for smaller copies, since *rows* calls a product for each kernel row.
ENTRIES_PER_CALL = 4000
#: Columns of a kernel row's product, k_2 .. k_n C/G.  The product is slow for fewer
#: columns, so *patches* is chosen.
MIN_ROW_COLUMNS = 32
#: Bytes of copies that are made before they are read, so that they stay in cache.
CACHE_BYTES = 4 * 2**20


class Convolution(NamedTuple):
    """Settings of a convolution, one number per dimension.

    Attributes:
        kernel_size: k_1 .. k_n.
        stride: Distance of neighbouring positions in the input.
        dilation: Distance of neighbouring entries of a patch in the input.
        groups: Number of groups, G.
    """

    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int


class SampleGradients(NamedTuple):
    """Per-sample gradients of a convolution's weight.

    Attributes:
        values: [B, p, C/G, *kernel_size].
        squared_norms: Squared norms, [B], never too small; None if the backend has not
            computed them.
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
    """Returns the per-sample gradients of the weight, [B, p, C/G, *kernel_size].

    Args:
        x: Inputs, [B, C, *size].
        g: Gradients of the outputs, [B, p, *positions].
        layer: Settings of the convolution.
        sides: Widths of the zero padding of each sample, in the order of ``F.pad``.
        method: One of METHODS; ``estimated_method`` chooses one if it is empty.
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
    compute = _by_patches if method == "patches" else _by_rows
    values = compute(by_group(x, groups), by_group(g, groups), windows)
    return in_weight_order(values, batch)


def estimated_method(
    positions: int, kernel_size: Sequence[int], depth: int, groups: int
) -> str:
    """Returns the method that is likely to be the fastest.

    Args:
        positions: Output positions of a sample.
        kernel_size: k_1 .. k_n.
        depth: Input channels of a group, C/G.
        groups: Number of groups, G.
    """
    if depth == 1 < groups:
        return "grouped"
    columns = depth * prod(kernel_size[1:])
    is_narrow = len(kernel_size) > 1 and columns < MIN_ROW_COLUMNS
    patch_entries = positions * kernel_size[0] * columns
    is_small = patch_entries < ENTRIES_PER_CALL * kernel_size[0]
    return "patches" if is_narrow or is_small else "rows"


def in_weight_order(values: Tensor, batch: int) -> Tensor:
    """Returns [B G, k_1, p/G, k_2 .. k_n, C/G] as [B, p, C/G, k_1 .. k_n]."""
    dims = values.dim() - 3
    ordered = values.permute(0, 2, 2 + dims, 1, *range(3, 2 + dims))
    _, outputs, depth, *kernel_size = ordered.shape
    groups = len(values) // batch
    return ordered.reshape(batch, groups * outputs, depth, *kernel_size)


class Windows:
    """The input entries that each kernel offset reads.

    Args:
        out: Output positions per dimension.
        layer: Settings of the convolution.
    """

    def __init__(self, out: Sequence[int], layer: Convolution) -> None:
        self.out, self.kernel_size = tuple(out), tuple(layer.kernel_size)
        self.stride, self.dilation = tuple(layer.stride), tuple(layer.dilation)
        self.positions = prod(out)
        self.patch_entries = self.positions * prod(layer.kernel_size)

    def input_slice(self, dim: int, offset: int) -> slice:
        """Returns the inputs of one kernel offset in a spatial dimension."""
        first, step = offset * self.dilation[dim], self.stride[dim]
        return slice(first, first + (self.out[dim] - 1) * step + 1, step)

    def inner_slices(self) -> list[tuple[slice, ...]]:
        """Returns the inputs of each kernel offset in all but the first dimension."""
        offsets = product(*map(range, self.kernel_size[1:]))
        return [
            tuple(self.input_slice(dim, o) for dim, o in enumerate(offset, start=1))
            for offset in offsets
        ]


def by_group(values: Tensor, groups: int) -> Tensor:
    """Returns [B, C, *size] as [B G, C/G, *size]."""
    batch, channels, *size = values.shape
    return values.reshape(batch * groups, channels // groups, *size)


def _by_rows(x: Tensor, g: Tensor, windows: Windows) -> Tensor:
    rows, outputs, depth = windows.kernel_size[0], g.shape[1], x.shape[1]
    inner = windows.inner_slices()
    gradients = x.new_empty(len(x), rows, outputs, len(inner) * depth)
    sample_bytes = x[0].numel() * len(inner) * x.element_size()
    chunk_samples = max(1, CACHE_BYTES // sample_bytes)
    for start in range(0, len(x), chunk_samples):
        chunk = slice(start, start + chunk_samples)
        _fill_rows(gradients[chunk], x[chunk], g[chunk].flatten(2), windows, inner)
    return gradients.view(len(x), rows, outputs, *windows.kernel_size[1:], depth)


def _fill_rows(
    gradients: Tensor,
    x: Tensor,
    g: Tensor,
    windows: Windows,
    inner: Sequence[tuple[slice, ...]],
) -> None:
    """Writes the gradients [b, k_1, p, K C] of b samples, one kernel row at a time."""
    step, row_positions = windows.stride[0], windows.positions // windows.out[0]
    # Kernel rows of one phase (offset modulo stride) share one shifted copy.
    copies: dict[int, Tensor] = {}
    for row in range(windows.kernel_size[0]):
        start, phase = divmod(row * windows.dilation[0], step)
        if phase not in copies:
            leading = (slice(None), slice(None), slice(phase, None, step))
            views = [x[(*leading, *window)].flatten(2) for window in inner]
            copies[phase] = torch.stack(views, 1).flatten(1, 2)
        inputs = copies[phase][..., start * row_positions :][..., : windows.positions]
        torch.bmm(g, inputs.transpose(1, 2), out=gradients[:, row])


def _by_patches(x: Tensor, g: Tensor, windows: Windows) -> Tensor:
    sample_bytes = x.shape[1] * windows.patch_entries * x.element_size()
    chunk_samples = max(1, CACHE_BYTES // max(1, sample_bytes))
    outputs, depth = g.shape[1], x.shape[1]
    gradients = x.new_empty(len(x), outputs, prod(windows.kernel_size) * depth)
    for start in range(0, len(x), chunk_samples):
        chunk = slice(start, start + chunk_samples)
        patches = _patches(x[chunk], windows)
        torch.bmm(g[chunk].flatten(2), patches.transpose(1, 2), out=gradients[chunk])
    shape = len(x), outputs, *windows.kernel_size, depth
    return gradients.view(shape).transpose(1, 2)


def _patches(x: Tensor, windows: Windows) -> Tensor:
    """Returns a copy of the patch of each position, [b, K C, T]."""
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
    """Returns [B, p, C/G, *kernel_size], from one convolution with B G groups."""
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

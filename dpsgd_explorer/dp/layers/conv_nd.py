"""Layer rules for convolutions of one, two or three dimensions, plain and transposed.

Both are linear layers on patches.  A convolution reads patches of its input: with U_t
the patch under output position t, D = C k_1 .. k_n entries, the gradient is
sum_t g_t U_t^T, group by group.  A transposed convolution writes patches of its output:
the gradient of its weight is sum_t x_t V_t^T, with V_t the patch of the *output
gradient* at input position t.  Inputs and output gradients swap their roles.

The input is padded explicitly first, in the layer's mode.  The padded input has the
patches of an unpadded convolution for every padding, also the uneven padding of "same".

Source: Bu, Mao and Xu (2022), arXiv:2205.10683 (ghost norm of convolutions); groups,
padding modes and transposed convolutions are derived here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import ClassVar, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.modules.conv import _ConvNd

from dpsgd_explorer.dp.backends import backend_of
from dpsgd_explorer.dp.backends.convolution import Convolution
from dpsgd_explorer.dp.backends.rounding import vector_norms
from dpsgd_explorer.dp.layers.base import (
    LayerRule,
    gradient_squared_norms,
    measured,
    scale_samples,
    trained,
    trains,
)
from dpsgd_explorer.dp.layers.cross_terms import OuterProduct
from dpsgd_explorer.dp.layers.matrix_norm import MatrixNorm, MatrixSizes
from dpsgd_explorer.dp.layers.round_off import (
    gram,
    gram_norms,
    sum_over_positions,
)

#: Maximum number of positions for a weighted sum by one product on copied patches.
MAX_PATCH_POSITIONS = 16
#: Minimum number of output channels for a weighted sum by this product.
MIN_PATCH_CHANNELS = 128


class Patches(NamedTuple):
    """A convolution as a linear layer.

    Attributes:
        read: The tensor that patches are cut from, [B, C, *size].
        rows: The tensor that multiplies them, [B, p, *positions].
        sides: Widths of the zero padding that ``read`` still needs, as for ``F.pad``.
    """

    read: Tensor
    rows: Tensor
    sides: Sequence[int] = ()


def patches(layer: _ConvNd, x: Tensor, g: Tensor) -> Patches:
    """Returns a convolution as a linear layer on patches."""
    if not layer.transposed:
        return Patches(_padded(layer, x), g)
    padding = cast(tuple[int, ...], layer.padding)  # never a string such as "same"
    sides = [side for p in reversed(padding) for side in (p, p)]
    return Patches(_cropped(layer, F.pad(g, sides), x), x)


def unpadded(layer: _ConvNd, x: Tensor, g: Tensor) -> Patches:
    """Returns the patches without the zeros around the tensor that is read."""
    if layer.padding_mode == "zeros" and not layer.transposed:
        return Patches(x, g, layer._reversed_padding_repeated_twice)
    return patches(layer, x, g)


class ConvNdNorm(MatrixNorm[_ConvNd]):
    """The ghost norm of a convolution, by the Gram matrices of its patches."""

    has_patches: ClassVar[bool] = True

    def squared_norms(
        self, layer: _ConvNd, activations: Tensor, backprops: Tensor
    ) -> Tensor:
        bias_norms = vector_norms(sum_over_positions(backprops)).square_()
        if not trains(layer, "weight"):
            return bias_norms
        read, rows, _ = patches(layer, activations, backprops)
        u = _unfolded(layer, read, rows).flatten(0, 1)  # [B G, T, D/G]
        g = _by_group(layer, rows).flatten(0, 1)  # [B G, T, p/G]
        norms = gram_norms(gram(u), gram(g))
        norms = norms.view(len(backprops), layer.groups).sum(1)
        return norms + bias_norms if trains(layer, "bias") else norms

    def add_weighted(
        self,
        layer: _ConvNd,
        activations: Tensor,
        backprops: Tensor,
        weights: Tensor,
        sums: Mapping[str, Tensor],
    ) -> None:
        if trains(layer, "weight") and len(weights):
            read, rows, sides = unpadded(layer, activations, backprops)
            rows = scale_samples(rows, weights)
            if _is_faster_by_patches(layer, rows):
                read = F.pad(read, list(sides)) if any(sides) else read
                _add_by_patches(layer, read, rows, sums["weight"])
            else:
                sums["weight"].add_(_weight_gradient(layer, read, rows, sides))
        if trains(layer, "bias"):
            sums["bias"].addmv_(sum_over_positions(backprops).t(), weights)

    def sizes(
        self, layer: _ConvNd, activations: Tensor, backprops: Tensor
    ) -> MatrixSizes:
        rows = activations if layer.transposed else backprops
        shape = layer.weight.shape
        entries, outputs = prod(shape[1:]), shape[0] // layer.groups
        return MatrixSizes(prod(rows.shape[2:]), entries, outputs, layer.groups)

    def outer_products(
        self, layer: _ConvNd, activations: Tensor, backprops: Tensor
    ) -> dict[str, OuterProduct] | None:
        if layer.groups > 1:
            return None  # A call has one product per parameter, not one per group.
        read, rows, _ = patches(layer, activations, backprops)
        unfolded = _unfolded(layer, read, rows)[:, 0]  # [B, T, K C], channels last
        by_offset = unfolded.unflatten(2, (-1, read.shape[1]))  # type: ignore[no-untyped-call]
        in_order = by_offset.transpose(2, 3).flatten(2)  # as in the weight: C, then K
        g = backprops.flatten(2).transpose(1, 2)
        products = {
            "weight": OuterProduct(_by_group(layer, rows)[:, 0], in_order),
            "bias": OuterProduct(g, torch.ones_like(g[..., :1])),
        }
        return trained(layer, products)


class ConvNdRule(LayerRule[_ConvNd]):
    """Inputs [B, C, *size], outputs [B, p, *positions], T positions in all."""

    reads_parameters: ClassVar[bool] = False
    ghost_norm: ClassVar[ConvNdNorm] = ConvNdNorm()
    bias_needs_no_activations: ClassVar[bool] = True
    forward_methods: ClassVar[tuple[str, ...]] = ("forward", "_conv_forward")

    def per_sample_gradients(
        self, layer: _ConvNd, activations: Tensor, backprops: Tensor
    ) -> dict[str, Tensor]:
        return _gradients(layer, activations, backprops)[0]

    def measured_gradients(
        self, layer: _ConvNd, activations: Tensor, backprops: Tensor
    ) -> tuple[dict[str, Tensor], Tensor]:
        gradients, of_weight = _gradients(layer, activations, backprops)
        if of_weight is None or "bias" not in gradients:
            return measured(gradients, of_weight)
        of_bias = gradient_squared_norms({"bias": gradients["bias"]})
        return gradients, backend_of(backprops).sum_of([of_weight, of_bias])

    def wrong_input(self, layer: _ConvNd, inputs: Tensor) -> str:
        rank = len(layer.kernel_size) + 2
        return "" if inputs.dim() == rank else f"takes a batch of {rank} dimensions"


class ConvTransposeNdRule(ConvNdRule):
    """Inputs [B, C, *positions], outputs [B, p, *size]; the weight is [C, p/G, *k]."""

    forward_methods: ClassVar[tuple[str, ...]] = ("forward", "_output_padding")


def _gradients(
    layer: _ConvNd, activations: Tensor, backprops: Tensor
) -> tuple[dict[str, Tensor], Tensor | None]:
    """Returns the gradients by name, and the weight's norms or None."""
    gradients, norms = {}, None
    if trains(layer, "weight"):
        read, rows, sides = unpadded(layer, activations, backprops)
        gradients["weight"], norms = backend_of(rows).convolution_gradients(
            read, rows, settings_of(layer), sides
        )
    if trains(layer, "bias"):
        gradients["bias"] = sum_over_positions(backprops)
    return gradients, norms


def settings_of(layer: _ConvNd) -> Convolution:
    """Returns the settings of a layer."""
    return Convolution(layer.kernel_size, layer.stride, layer.dilation, layer.groups)


def _padded(layer: _ConvNd, x: Tensor) -> Tensor:
    sides = layer._reversed_padding_repeated_twice
    if not any(sides):
        return x
    mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
    return F.pad(x, sides, mode=mode)


def _cropped(layer: _ConvNd, read: Tensor, rows: Tensor) -> Tensor:
    """Removes the entries after the last patch, the ``output_padding``."""
    steps = zip(
        rows.shape[2:], layer.kernel_size, layer.stride, layer.dilation, strict=True
    )
    needed = [
        (t - 1) * stride + dilation * (k - 1) + 1 for t, k, stride, dilation in steps
    ]
    excess = [size - used for size, used in zip(read.shape[2:], needed, strict=True)]
    return F.pad(read, [side for e in reversed(excess) for side in (0, -e)])


def _unfolded(layer: _ConvNd, read: Tensor, rows: Tensor) -> Tensor:
    """Copies the patch of each position, [B, G, T, D/G].

    Entries run over the kernel, then C/G.  With channels last, copying is fastest in
    both memory formats, and a Gram matrix does not depend on the order.
    """
    batch, channel, *steps = read.stride()
    depth, positions = read.shape[1] // layer.groups, rows.shape[2:]
    view = read.as_strided(
        (len(read), layer.groups, *positions, *layer.kernel_size, depth),
        (
            batch,
            channel * depth,
            *(a * b for a, b in zip(steps, layer.stride, strict=True)),
            *(a * b for a, b in zip(steps, layer.dilation, strict=True)),
            channel,
        ),
    )
    entries = prod(layer.kernel_size) * depth
    return view.reshape(len(read), layer.groups, prod(positions), entries)


def _by_group(layer: _ConvNd, rows: Tensor) -> Tensor:
    """Returns [B, G, T, p/G]."""
    outputs = rows.shape[1] // layer.groups
    split = rows.reshape(len(rows), layer.groups, outputs, prod(rows.shape[2:]))
    return split.transpose(2, 3)


def _is_faster_by_patches(layer: _ConvNd, rows: Tensor) -> bool:
    """Returns True if a matrix product on patches is faster than torch's convolution.

    Torch's kernels are slow for few positions.  For 512 channels on 4 by 4 pixels and
    16 samples they take 32 to 37 ms, and patches with the product take 18 ms.  On 8 by
    8 pixels both take equal times.
    """
    positions, channels = prod(rows.shape[2:]), rows.shape[1]
    return (
        layer.groups == 1
        and positions <= MAX_PATCH_POSITIONS
        and channels >= MIN_PATCH_CHANNELS
    )


def _add_by_patches(layer: _ConvNd, read: Tensor, rows: Tensor, total: Tensor) -> None:
    """Adds the weight gradient of the whole batch for an unpadded convolution."""
    patches = _unfolded(layer, read, rows)[:, 0].flatten(0, 1)  # [B T, K C]
    g = _by_group(layer, rows)[:, 0].flatten(0, 1)  # [B T, p]
    gradient = torch.mm(g.t(), patches)
    by_offset = gradient.view(len(gradient), -1, read.shape[1])  # [p, K, C]
    total.flatten(2).add_(by_offset.transpose(1, 2))


def _weight_gradient(
    layer: _ConvNd, read: Tensor, rows: Tensor, sides: Sequence[int]
) -> Tensor:
    """Returns the weight gradient of the whole batch.

    Args:
        layer: The layer.
        read: The tensor that patches are cut from.
        rows: Output gradients, scaled.
        sides: Widths of the zero padding of each sample, as for ``F.pad``.  Equal
            widths are passed to torch's convolution, which pads in less time.
    """
    padding = zeros = [0] * len(layer.kernel_size)
    if any(sides) and sides[::2] == sides[1::2]:
        padding = [*reversed(sides[::2])]
    elif any(sides):
        read = F.pad(read, list(sides))
    weight = read.new_empty(
        rows.shape[1], read.shape[1] // layer.groups, *layer.kernel_size
    )
    steps = list(layer.stride), padding, list(layer.dilation)
    gradient: Tensor = torch.ops.aten.convolution_backward(
        rows,
        read,
        weight,
        None,
        *steps,
        False,
        zeros,
        layer.groups,
        [False, True, False],
    )[1]
    return gradient

"""Layer rules for convolutions of one, two or three dimensions, plain and transposed.

Both are linear layers on patches.  A convolution reads patches of its input: with U_t
the patch under output position t, the gradient is sum_t g_t U_t^T, group by group.  A
transposed one writes patches of its output; the gradient with respect to its weight is
sum_t x_t V_t^T with V_t the patch of the *output gradient* that input position t wrote:
the same algebra with the two roles swapped.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import ClassVar, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.modules.conv import _ConvNd

from dpsgd_explorer.dp.layers.base import LayerRule, MultiplyAdds, scale_samples, trains
from dpsgd_explorer.dp.layers.conv_gradients import convolution_gradients
from dpsgd_explorer.dp.layers.norm_costs import ghost_is_quicker
from dpsgd_explorer.dp.layers.outer_products import OuterProduct
from dpsgd_explorer.dp.layers.round_off import (
    excess,
    gram,
    gram_norms,
    lengths,
    sum_over_positions,
)


class Patches(NamedTuple):
    """A convolution as a linear layer.

    Attributes:
        read: What the patches are cut from, padded and cropped, [B, C, *size].
        rows: What multiplies them, one vector a position, [B, p, *positions].
    """

    read: Tensor
    rows: Tensor


class ConvNdRule(LayerRule[_ConvNd]):
    """Inputs [B, C, *size], outputs [B, p, *positions]."""

    forward_methods: ClassVar[tuple[str, ...]] = ("forward", "_conv_forward")

    def patches(self, layer: _ConvNd, x: Tensor, g: Tensor) -> Patches:
        """Return what is read and what multiplies it."""
        return Patches(_cropped(layer, _padded(layer, x), g), g)

    def per_sample_gradients(
        self, layer: _ConvNd, activations: Tensor, backprops: Tensor
    ) -> dict[str, Tensor]:
        gradients = {}
        if trains(layer, "weight"):
            read, rows = self.patches(layer, activations, backprops)
            gradients["weight"] = convolution_gradients(
                read,
                rows,
                layer.kernel_size,
                layer.stride,
                layer.dilation,
                layer.groups,
            )
        if trains(layer, "bias"):
            gradients["bias"] = sum_over_positions(backprops)
        return gradients

    def squared_norms(
        self, layer: _ConvNd, activations: Tensor, backprops: Tensor
    ) -> Tensor:
        bias_norms = lengths(sum_over_positions(backprops)).square_()
        if not trains(layer, "weight"):
            return bias_norms
        read, rows = self.patches(layer, activations, backprops)
        u = _unfolded(layer, read, rows).flatten(0, 1)  # [B G, T, D]
        g = _by_group(layer, rows).flatten(0, 1)  # [B G, T, p]
        norms = gram_norms(gram(u), gram(g))
        norms = norms.view(len(backprops), layer.groups).sum(1)
        return norms + bias_norms if trains(layer, "bias") else norms

    def weighted_gradients(
        self,
        layer: _ConvNd,
        activations: Tensor,
        backprops: Tensor,
        weights: Tensor,
        sums: Mapping[str, Tensor],
    ) -> None:
        if trains(layer, "weight") and len(weights):
            read, rows = self.patches(layer, activations, backprops)
            rows = scale_samples(rows, weights)
            sums["weight"].add_(_weight_gradient(layer, read, rows, layer.groups))
        if trains(layer, "bias"):
            sums["bias"].addmv_(sum_over_positions(backprops).t(), weights)

    def multiply_adds(
        self, layer: _ConvNd, activations: Tensor, backprops: Tensor
    ) -> MultiplyAdds:
        """T^2 (D + p) against T D p in each group."""
        positions = prod(self._rows_of(activations, backprops).shape[2:])
        outputs = layer.weight.shape[0] // layer.groups
        entries = layer.weight[0].numel()
        return MultiplyAdds(
            layer.groups * positions**2 * (entries + outputs),
            layer.groups * positions * entries * outputs,
        )

    def prefers_ghost(
        self, layer: _ConvNd, activations: Tensor, backprops: Tensor
    ) -> bool:
        positions = prod(self._rows_of(activations, backprops).shape[2:])
        entries, outputs = layer.weight[0].numel(), len(layer.weight) // layer.groups
        return ghost_is_quicker(positions, entries, outputs, copied=True)

    def excess(self, layer: _ConvNd, activations: Tensor, backprops: Tensor) -> float:
        positions = prod(self._rows_of(activations, backprops).shape[2:])
        outputs = len(layer.weight) // layer.groups
        return excess(positions, layer.weight[0].numel(), outputs)

    def factors(
        self, layer: _ConvNd, activations: Tensor, backprops: Tensor
    ) -> dict[str, OuterProduct] | None:
        if layer.groups > 1:
            return None
        read, rows = self.patches(layer, activations, backprops)
        g = backprops.flatten(2).transpose(1, 2)
        products = {
            "weight": OuterProduct(
                _by_group(layer, rows)[:, 0], _unfolded(layer, read, rows)[:, 0]
            ),
            "bias": OuterProduct(g, torch.ones_like(g[..., :1])),
        }
        return {name: each for name, each in products.items() if trains(layer, name)}

    def wrong_input(self, layer: _ConvNd, inputs: Tensor) -> str:
        rank = len(layer.kernel_size) + 2
        return "" if inputs.dim() == rank else f"takes a batch of {rank} dimensions"

    def _rows_of(self, x: Tensor, g: Tensor) -> Tensor:
        return g


class ConvTransposeNdRule(ConvNdRule):
    """Inputs [B, C, *positions], outputs [B, p, *size]; the weight is [C, p/G, *k]."""

    forward_methods: ClassVar[tuple[str, ...]] = ("forward", "_output_padding")

    def patches(self, layer: _ConvNd, x: Tensor, g: Tensor) -> Patches:
        padding = cast(tuple[int, ...], layer.padding)  # never a word, as in "same"
        sides = [side for p in reversed(padding) for side in (p, p)]
        return Patches(_cropped(layer, F.pad(g, sides), x), x)

    def _rows_of(self, x: Tensor, g: Tensor) -> Tensor:
        return x


def _padded(layer: _ConvNd, x: Tensor) -> Tensor:
    sides = layer._reversed_padding_repeated_twice
    if not any(sides):
        return x
    mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
    return F.pad(x, sides, mode=mode)


def _cropped(layer: _ConvNd, read: Tensor, rows: Tensor) -> Tensor:
    """Cut off, or pad with zeros, what lies beyond the last patch."""
    steps = zip(
        rows.shape[2:], layer.kernel_size, layer.stride, layer.dilation, strict=True
    )
    needed = [
        (t - 1) * stride + dilation * (k - 1) + 1 for t, k, stride, dilation in steps
    ]
    excess = [want - have for want, have in zip(needed, read.shape[2:], strict=True)]
    return F.pad(read, [side for e in reversed(excess) for side in (0, e)])


def _unfolded(layer: _ConvNd, read: Tensor, rows: Tensor) -> Tensor:
    """Copy the patches of each position, [B, G, T, D/G] with D over C, then k."""
    dims = len(layer.kernel_size)
    split = read.shape[0], layer.groups, read.shape[1] // layer.groups
    shape = [*split, *rows.shape[2:], *layer.kernel_size]
    step = read.stride()
    strides = [step[0], step[1] * split[2], step[1]]
    strides += [step[2 + i] * layer.stride[i] for i in range(dims)]
    strides += [step[2 + i] * layer.dilation[i] for i in range(dims)]
    view = read.as_strided(shape, strides, read.storage_offset())
    places = [3 + i for i in range(dims)]
    kernel = [3 + dims + i for i in range(dims)]
    ordered = view.permute(0, 1, *places, 2, *kernel)
    return ordered.reshape(
        *split[:2], prod(rows.shape[2:]), split[2] * prod(layer.kernel_size)
    )


def _by_group(layer: _ConvNd, rows: Tensor) -> Tensor:
    """Return [B, G, T, p/G]."""
    outputs = rows.shape[1] // layer.groups
    split = rows.reshape(len(rows), layer.groups, outputs, prod(rows.shape[2:]))
    return split.transpose(2, 3)


def _weight_gradient(layer: _ConvNd, read: Tensor, rows: Tensor, groups: int) -> Tensor:
    """Return the weight gradient of an unpadded convolution."""
    weight = read.new_empty(rows.shape[1], read.shape[1] // groups, *layer.kernel_size)
    zeros = [0] * len(layer.kernel_size)
    gradients = torch.ops.aten.convolution_backward(
        rows,
        read,
        weight,
        None,
        list(layer.stride),
        zeros,
        list(layer.dilation),
        False,
        zeros,
        groups,
        [False, True, False],
    )
    gradient: Tensor = gradients[1]
    return gradient

"""Layer rule for ``nn.Conv2d``: a linear layer on the patches of an image.

With U in R^{D x T} the T patches of a sample (D = C k_h k_w entries each), split by
channel into groups U_k, and G in R^{p x T} its output gradient split likewise, the
gradient of group k is G_k U_k^T and its squared norm <U_k^T U_k, G_k^T G_k>.
Padding is done first and explicitly, in the layer's own mode, so that the patches of
every padding (also the lopsided one of "same") are those of an unpadded convolution.

Source: Bu, Mao and Xu (2022), arXiv:2205.10683 (ghost norm of convolutions, and that
the choice belongs to each layer); groups and padding modes are derived here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.grad import conv2d_weight

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


class Conv2dRule(LayerRule[nn.Conv2d]):
    """Inputs [B, C, H, W], outputs [B, p, H', W'], T = H' W' positions."""

    forward_methods: ClassVar[tuple[str, ...]] = ("forward", "_conv_forward")

    def per_sample_gradients(
        self, layer: nn.Conv2d, activations: Tensor, backprops: Tensor
    ) -> dict[str, Tensor]:
        gradients = {}
        if trains(layer, "weight"):
            gradients["weight"] = convolution_gradients(
                _padded(layer, activations),
                backprops,
                layer.kernel_size,
                layer.stride,
                layer.dilation,
                layer.groups,
            )
        if trains(layer, "bias"):
            gradients["bias"] = sum_over_positions(backprops)
        return gradients

    def squared_norms(
        self, layer: nn.Conv2d, activations: Tensor, backprops: Tensor
    ) -> Tensor:
        bias_norms = lengths(sum_over_positions(backprops)).square_()
        if not trains(layer, "weight"):
            return bias_norms
        patches = _patches(layer, activations).flatten(0, 1)  # [B G, T, D/G]
        g = _by_group(layer, backprops).flatten(0, 1)  # [B G, p/G, T]
        norms = gram_norms(gram(patches), gram(g.transpose(1, 2)))
        norms = norms.view(len(backprops), layer.groups).sum(1)
        return norms + bias_norms if trains(layer, "bias") else norms

    def weighted_gradients(
        self,
        layer: nn.Conv2d,
        activations: Tensor,
        backprops: Tensor,
        weights: Tensor,
        sums: Mapping[str, Tensor],
    ) -> None:
        if trains(layer, "weight") and len(weights):
            g = scale_samples(backprops, weights)
            x = _padded(layer, activations)
            sums["weight"].add_(
                _convolution_gradient(layer, x, g, layer.weight.shape, layer.groups)
            )
        if trains(layer, "bias"):
            sums["bias"].addmv_(sum_over_positions(backprops).t(), weights)

    def wrong_input(self, layer: nn.Conv2d, inputs: Tensor) -> str:
        return "" if inputs.dim() == 4 else "takes a batch of 4 dimensions"

    def multiply_adds(
        self, layer: nn.Conv2d, activations: Tensor, backprops: Tensor
    ) -> MultiplyAdds:
        """T^2 (D + p) against T D p in each group."""
        positions = backprops.shape[2] * backprops.shape[3]
        entries = layer.weight[0].numel()  # D / G
        outputs = layer.out_channels // layer.groups
        return MultiplyAdds(
            layer.groups * positions**2 * (entries + outputs),
            layer.groups * positions * entries * outputs,
        )

    def excess(self, layer: nn.Conv2d, activations: Tensor, backprops: Tensor) -> float:
        positions = backprops.shape[2] * backprops.shape[3]
        outputs = layer.out_channels // layer.groups
        return excess(positions, layer.weight[0].numel(), outputs)

    def factors(
        self, layer: nn.Conv2d, activations: Tensor, backprops: Tensor
    ) -> dict[str, OuterProduct] | None:
        """Return None for groups: their gradients are several products."""
        if layer.groups > 1:
            return None
        g = backprops.flatten(2).transpose(1, 2)
        patches = _patches(layer, activations)[:, 0]  # [B, T, K C]
        split = patches.view(*patches.shape[:2], -1, layer.in_channels)
        in_order = split.transpose(2, 3).flatten(2)  # as in the weight: C, then kernel
        products = {
            "weight": OuterProduct(g, in_order),
            "bias": OuterProduct(g, torch.ones_like(g[..., :1])),
        }
        return {name: each for name, each in products.items() if trains(layer, name)}

    def prefers_ghost(
        self, layer: nn.Conv2d, activations: Tensor, backprops: Tensor
    ) -> bool:
        positions = backprops.shape[2] * backprops.shape[3]
        entries = layer.weight[0].numel()  # D / G
        outputs = layer.out_channels // layer.groups
        return ghost_is_quicker(positions, entries, outputs, copied=True)


def _convolution_gradient(
    layer: nn.Conv2d, x: Tensor, g: Tensor, shape: torch.Size, groups: int
) -> Tensor:
    """Return the weight gradient of an unpadded convolution, of the given shape."""
    gradient: Tensor = conv2d_weight(  # type: ignore[no-untyped-call]
        x, list(shape), g, layer.stride, 0, layer.dilation, groups
    )
    return gradient


def _by_group(layer: nn.Conv2d, g: Tensor) -> Tensor:
    """Return output gradients as [B, G, p/G, T]."""
    positions = g.shape[2] * g.shape[3]
    outputs = layer.out_channels // layer.groups
    return g.reshape(len(g), layer.groups, outputs, positions)


def _patches(layer: nn.Conv2d, x: Tensor) -> Tensor:
    """Copy the patches under each output position, [B, G, T, D/G].

    Entries run over k_h, k_w, C/G, the channel last: the quickest order to copy, in
    either memory format.
    """
    x = _padded(layer, x)
    batch, channels, *size = x.shape
    (kernel_h, kernel_w), (stride_h, stride_w) = layer.kernel_size, layer.stride
    dilation_h, dilation_w = layer.dilation
    out_h = (size[0] - dilation_h * (kernel_h - 1) - 1) // stride_h + 1
    out_w = (size[1] - dilation_w * (kernel_w - 1) - 1) // stride_w + 1
    depth = channels // layer.groups
    step_b, step_c, step_h, step_w = x.stride()
    view = x.as_strided(
        (batch, layer.groups, out_h, out_w, kernel_h, kernel_w, depth),
        (
            step_b,
            step_c * depth,
            step_h * stride_h,
            step_w * stride_w,
            step_h * dilation_h,
            step_w * dilation_w,
            step_c,
        ),
    )
    return view.reshape(batch, layer.groups, out_h * out_w, kernel_h * kernel_w * depth)


def _padded(layer: nn.Conv2d, x: Tensor) -> Tensor:
    padding = layer._reversed_padding_repeated_twice  # [left, right, top, bottom]
    if not any(padding):
        return x
    mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
    return F.pad(x, padding, mode=mode)

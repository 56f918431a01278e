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

from dpsgd_explorer.dp.layers.base import LayerRule, gram_norms, scale_samples, trains


class Conv2dRule(LayerRule[nn.Conv2d]):
    """Inputs [B, C, H, W], outputs [B, p, H', W'], T = H' W' positions."""

    forward_methods: ClassVar[tuple[str, ...]] = ("forward", "_conv_forward")

    def per_sample_gradients(
        self, layer: nn.Conv2d, activations: Tensor, backprops: Tensor
    ) -> dict[str, Tensor]:
        gradients = {}
        if trains(layer, "weight"):
            few_positions = self.prefers_ghost(layer, activations, backprops)
            make = _patch_gradients if few_positions else _grouped_gradients
            gradients["weight"] = make(layer, activations, backprops)
        if trains(layer, "bias"):
            gradients["bias"] = backprops.sum((2, 3))
        return gradients

    def squared_norms(
        self, layer: nn.Conv2d, activations: Tensor, backprops: Tensor
    ) -> Tensor:
        bias_norms = backprops.sum((2, 3)).square().sum(1)
        if not trains(layer, "weight"):
            return bias_norms
        patches = _patches(layer, activations).flatten(0, 1)  # [B G, T, D/G]
        g = _by_group(layer, backprops).flatten(0, 1)  # [B G, p/G, T]
        norms = gram_norms(
            torch.bmm(patches, patches.transpose(1, 2)), torch.bmm(g.transpose(1, 2), g)
        )
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
        g = scale_samples(backprops, weights)
        if trains(layer, "weight") and len(g):
            x = _padded(layer, activations)
            sums["weight"].add_(
                _convolution_gradient(layer, x, g, layer.weight.shape, layer.groups)
            )
        if trains(layer, "bias"):
            sums["bias"].add_(g.sum((0, 2, 3)))

    def prefers_ghost(
        self, layer: nn.Conv2d, activations: Tensor, backprops: Tensor
    ) -> bool:
        """Compare multiply-adds a sample and group: T^2 (D + p) against T D p.

        With one channel a group (depthwise) the gradient is tiny: instantiate.
        """
        positions = backprops.shape[2] * backprops.shape[3]
        entries = layer.weight[0].numel()  # D / G
        outputs = layer.out_channels // layer.groups
        depthwise = layer.groups > 1 and layer.groups == layer.in_channels
        return not depthwise and positions * (entries + outputs) < entries * outputs


def _patch_gradients(layer: nn.Conv2d, x: Tensor, g: Tensor) -> Tensor:
    """Return [B, p, C/G, k_h, k_w] as a product of output gradients and patches."""
    product = _by_group(layer, g) @ _patches(layer, x)  # [B, G, p/G, D/G]
    height, width = layer.kernel_size
    shape = len(x), layer.out_channels, height, width, layer.in_channels // layer.groups
    return product.reshape(shape).permute(0, 1, 4, 2, 3)


def _grouped_gradients(layer: nn.Conv2d, x: Tensor, g: Tensor) -> Tensor:
    """Return the same from one convolution in which each sample is a group of its own.

    Quicker where there are many positions: no patch is copied.
    """
    x, batch = _padded(layer, x), len(x)
    shape = layer.weight.shape
    if batch == 0:
        return x.new_zeros(0, *shape)
    gradients = _convolution_gradient(
        layer,
        x.reshape(1, -1, *x.shape[2:]),
        g.reshape(1, -1, *g.shape[2:]),
        torch.Size((batch * shape[0], *shape[1:])),
        batch * layer.groups,
    )
    return gradients.view(batch, *shape)


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

"""Autograd functions in the place of layers (``engine="extending"``).

Each runs a layer as torch does; in backward it hands the gradient of the output over
and makes that of the input.  A gradient of weights is never made here, and the layer's
input is not kept for one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from dpsgd_explorer.dp.layers.base import Rule
from dpsgd_explorer.dp.layers.conv2d import Conv2dRule
from dpsgd_explorer.dp.layers.conv_nd import ConvNdRule
from dpsgd_explorer.dp.layers.embedding import EmbeddingRule
from dpsgd_explorer.dp.layers.linear import LinearRule
from dpsgd_explorer.dp.layers.normalization import GroupNormRule, LayerNormRule

LayerT = TypeVar("LayerT", bound=nn.Module)
Saved = tuple[Tensor, ...]
ONLY_INPUT = [True, False, False]
"""Which gradients torch's kernels are asked for: input, weight, bias."""


class LayerFunction(ABC, Generic[LayerT]):
    """One kind of layer, forward and back to its input."""

    def fits(self, layer: LayerT, x: Tensor) -> bool:
        """Whether the layer can be run this way; if not, torch runs it."""
        return True

    @abstractmethod
    def forward(self, layer: LayerT, x: Tensor) -> tuple[Tensor, Saved]:
        """Return the output, and what ``backward`` needs."""

    @abstractmethod
    def backward(self, layer: LayerT, saved: Saved, gradient: Tensor) -> Tensor:
        """Turn the gradient of the output into that of the input."""


class LinearFunction(LayerFunction[nn.Linear]):
    """y = x W^T + b, so the gradient of x is g W."""

    def forward(self, layer: nn.Linear, x: Tensor) -> tuple[Tensor, Saved]:
        return F.linear(x, layer.weight, layer.bias), (layer.weight,)

    def backward(self, layer: nn.Linear, saved: Saved, gradient: Tensor) -> Tensor:
        return gradient @ saved[0]


class ConvFunction(LayerFunction[_ConvNd]):
    """A convolution; back to its input goes the transposed one."""

    def fits(self, layer: _ConvNd, x: Tensor) -> bool:
        return layer.padding_mode == "zeros" and not isinstance(layer.padding, str)

    def forward(self, layer: _ConvNd, x: Tensor) -> tuple[Tensor, Saved]:
        out: Tensor = layer._conv_forward(x, layer.weight, layer.bias)
        return out, (x, layer.weight)

    def backward(self, layer: _ConvNd, saved: Saved, gradient: Tensor) -> Tensor:
        x, weight = saved
        sizes = layer.stride, layer.padding, layer.dilation
        whole = False, [0] * len(layer.kernel_size), layer.groups
        back = torch.ops.aten.convolution_backward
        found: Tensor = back(gradient, x, weight, None, *sizes, *whole, ONLY_INPUT)[0]
        return found


class EmbeddingFunction(LayerFunction[nn.Embedding]):
    """Rows of a table; nothing goes back to ids."""

    def forward(self, layer: nn.Embedding, x: Tensor) -> tuple[Tensor, Saved]:
        return F.embedding(x, layer.weight, layer.padding_idx), ()

    def backward(self, layer: nn.Embedding, saved: Saved, gradient: Tensor) -> Tensor:
        raise TypeError("ids have no gradient.")


class LayerNormFunction(LayerFunction[nn.LayerNorm]):
    """Each position standardised over its features, then scaled and moved."""

    def forward(self, layer: nn.LayerNorm, x: Tensor) -> tuple[Tensor, Saved]:
        out, mean, rstd = torch.native_layer_norm(
            x, layer.normalized_shape, layer.weight, layer.bias, layer.eps
        )
        scale = layer.weight if layer.weight is not None else x.new_empty(0)
        return out, (x, mean, rstd, scale)

    def backward(self, layer: nn.LayerNorm, saved: Saved, gradient: Tensor) -> Tensor:
        x, mean, rstd, scale = saved
        weight = scale if layer.weight is not None else None
        shape = layer.normalized_shape
        back = torch.ops.aten.native_layer_norm_backward
        found: Tensor = back(gradient, x, shape, mean, rstd, weight, None, ONLY_INPUT)[
            0
        ]
        return found


class GroupNormFunction(LayerFunction[nn.GroupNorm]):
    """Each group of channels standardised over positions, then scaled and moved."""

    def forward(self, layer: nn.GroupNorm, x: Tensor) -> tuple[Tensor, Saved]:
        x = x.contiguous()
        sizes = len(x), layer.num_channels, x.shape[2:].numel()
        out, mean, rstd = torch.native_group_norm(
            x, layer.weight, layer.bias, *sizes, layer.num_groups, layer.eps
        )
        return out, (x, mean, rstd, layer.weight)

    def backward(self, layer: nn.GroupNorm, saved: Saved, gradient: Tensor) -> Tensor:
        x, mean, rstd, weight = saved
        sizes = len(x), layer.num_channels, x.shape[2:].numel()
        back = torch.ops.aten.native_group_norm_backward
        arguments = gradient.contiguous(), x, mean, rstd, weight, *sizes
        found: Tensor = back(*arguments, layer.num_groups, ONLY_INPUT)[0]
        return found


FUNCTIONS: Mapping[type[Rule[Any]], LayerFunction[Any]] = {
    LinearRule: LinearFunction(),
    Conv2dRule: ConvFunction(),
    ConvNdRule: ConvFunction(),
    EmbeddingRule: EmbeddingFunction(),
    LayerNormRule: LayerNormFunction(),
    GroupNormRule: GroupNormFunction(),
}
"""By the rule that a layer has; a layer with any other keeps torch's own backward."""


def function_of(
    layer: nn.Module, rule: Rule[Any], args: Any, kwargs: Any
) -> LayerFunction[Any] | None:
    """Return what can stand in for this call of a layer; None if torch has to run it.

    Autocast chooses precisions for torch's own operations, so those are left alone.
    """
    function = FUNCTIONS.get(type(rule))
    if function is None or len(args) + len(kwargs) != 1:
        return None
    x = _only(args, kwargs)
    plain = isinstance(x, Tensor) and not torch.is_autocast_enabled(x.device.type)
    return function if plain and function.fits(layer, x) else None


def run_in_place_of(
    function: LayerFunction[Any], layer: nn.Module, args: Any, kwargs: Any
) -> Tensor:
    """Return the layer's output, in autograd's graph.

    Args:
        function: From ``function_of`` for this call.
        layer: The layer.
        args: Of its call.
        kwargs: Of its call, too.
    """
    # The anchor makes the graph start here where the input is in none.
    anchor = torch.empty(0, requires_grad=True)
    x = _only(args, kwargs)
    out: Tensor = _Replaced.apply(function, layer, anchor, x)  # type: ignore[no-untyped-call]
    return out


def _only(args: Any, kwargs: Any) -> Any:
    return [*args, *kwargs.values()][0]


class _Replaced(torch.autograd.Function):
    """A layer in autograd's graph; its weights are not."""

    @staticmethod
    def forward(
        ctx: Any,
        function: LayerFunction[Any],
        layer: nn.Module,
        anchor: Tensor,
        x: Tensor,
    ) -> Tensor:
        """Return the layer's output, whose taps are kept in this node."""
        out, saved = function.forward(layer, x)
        ctx.function, ctx.layer, ctx.arrivals = function, layer, []
        ctx.save_for_backward(*saved)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Hand the output's gradient over and return the input's."""
        for arrive in ctx.arrivals:
            arrive(gradients[0])
        back = None
        if ctx.needs_input_grad[-1]:
            back = ctx.function.backward(ctx.layer, ctx.saved_tensors, gradients[0])
        return None, None, None, back

"""Autograd functions that run in place of layers (``engine="extending"``).

Each runs its layer forward as torch does.  In backward it reports the gradient g of the
output and returns the gradient of the input alone.  The gradient of the weight is never
computed, and an input that only the weight's gradient needs is not saved.

| layer | output | gradient of the input |
|---|---|---|
| Linear | x W^T + b | g W |
| convolution | x * w + b | g convolved with w, transposed |
| Embedding | W[ids] | none: ids are whole numbers |
| LayerNorm, GroupNorm | w xhat + b | torch's kernel, for the input alone |
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Generic

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from dpsgd_explorer.dp.layers.base import Rule
from dpsgd_explorer.dp.layers.conv_nd import ConvNdRule
from dpsgd_explorer.dp.layers.embedding import EmbeddingRule
from dpsgd_explorer.dp.layers.ghost_norm import LayerT
from dpsgd_explorer.dp.layers.linear import LinearRule
from dpsgd_explorer.dp.layers.normalization import GroupNormRule, LayerNormRule

Saved = tuple[Tensor, ...]
#: Output mask of torch's backward kernels, for the gradients of (input, weight, bias).
INPUT_MASK = [True, False, False]


class LayerFunction(ABC, Generic[LayerT]):
    """The forward of one kind of layer, and the backward to the input."""

    def fits(self, layer: LayerT, x: Tensor) -> bool:
        """Returns True if this function supports the layer; otherwise torch runs it."""
        return True

    @abstractmethod
    def forward(self, layer: LayerT, x: Tensor) -> tuple[Tensor, Saved]:
        """Returns the output and the tensors that ``backward`` needs."""

    @abstractmethod
    def backward(self, layer: LayerT, saved: Saved, gradient: Tensor) -> Tensor:
        """Returns the gradient of the input from the gradient of the output."""


class LinearFunction(LayerFunction[nn.Linear]):
    """y = x W^T + b; the gradient of x is g W, [B, ..., p] -> [B, ..., d]."""

    def forward(self, layer: nn.Linear, x: Tensor) -> tuple[Tensor, Saved]:
        return F.linear(x, layer.weight, layer.bias), (layer.weight,)

    def backward(self, layer: nn.Linear, saved: Saved, gradient: Tensor) -> Tensor:
        return gradient @ saved[0]


class ConvFunction(LayerFunction[_ConvNd]):
    """A convolution; its gradient to the input is the transposed convolution."""

    def fits(self, layer: _ConvNd, x: Tensor) -> bool:
        # torch pads explicitly for the other modes and for padding="same".
        return layer.padding_mode == "zeros" and not isinstance(layer.padding, str)

    def forward(self, layer: _ConvNd, x: Tensor) -> tuple[Tensor, Saved]:
        out: Tensor = layer._conv_forward(x, layer.weight, layer.bias)
        return out, (x, layer.weight)

    def backward(self, layer: _ConvNd, saved: Saved, gradient: Tensor) -> Tensor:
        x, weight = saved
        sizes = layer.stride, layer.padding, layer.dilation
        not_transposed = False, [0] * len(layer.kernel_size), layer.groups
        kernel = torch.ops.aten.convolution_backward
        of_input: Tensor = kernel(
            gradient, x, weight, None, *sizes, *not_transposed, INPUT_MASK
        )[0]
        return of_input


class EmbeddingFunction(LayerFunction[nn.Embedding]):
    """Rows of a table, ids [B, ...] -> [B, ..., d]; ids have no gradient."""

    def forward(self, layer: nn.Embedding, x: Tensor) -> tuple[Tensor, Saved]:
        return F.embedding(x, layer.weight, layer.padding_idx), ()

    def backward(self, layer: nn.Embedding, saved: Saved, gradient: Tensor) -> Tensor:
        raise TypeError("ids have no gradient.")


class LayerNormFunction(LayerFunction[nn.LayerNorm]):
    """w xhat + b, with xhat standardised over the features of each position."""

    def forward(self, layer: nn.LayerNorm, x: Tensor) -> tuple[Tensor, Saved]:
        out, mean, rstd = torch.native_layer_norm(
            x, layer.normalized_shape, layer.weight, layer.bias, layer.eps
        )
        # Only tensors can be saved, so an empty tensor replaces a missing weight.
        scale = layer.weight if layer.weight is not None else x.new_empty(0)
        return out, (x, mean, rstd, scale)

    def backward(self, layer: nn.LayerNorm, saved: Saved, gradient: Tensor) -> Tensor:
        x, mean, rstd, scale = saved
        weight = scale if layer.weight is not None else None
        shape = layer.normalized_shape
        kernel = torch.ops.aten.native_layer_norm_backward
        of_input: Tensor = kernel(
            gradient, x, shape, mean, rstd, weight, None, INPUT_MASK
        )[0]
        return of_input


class GroupNormFunction(LayerFunction[nn.GroupNorm]):
    """w xhat + b, with xhat standardised over each group of channels."""

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
        kernel = torch.ops.aten.native_group_norm_backward
        arguments = gradient.contiguous(), x, mean, rstd, weight, *sizes
        of_input: Tensor = kernel(*arguments, layer.num_groups, INPUT_MASK)[0]
        return of_input


#: {the layer's rule: function}; a layer with another rule keeps torch's backward.
FUNCTIONS: Mapping[type[Rule[Any]], LayerFunction[Any]] = {
    LinearRule: LinearFunction(),
    ConvNdRule: ConvFunction(),
    EmbeddingRule: EmbeddingFunction(),
    LayerNormRule: LayerNormFunction(),
    GroupNormRule: GroupNormFunction(),
}


def function_of(
    layer: nn.Module, rule: Rule[Any], args: Any, kwargs: Any
) -> LayerFunction[Any] | None:
    """Returns the function for this call of a layer; None if torch must run the layer.

    Autocast chooses precisions for torch's own operations, so under autocast torch
    runs the layer.
    """
    function = FUNCTIONS.get(type(rule))
    if function is None or len(args) + len(kwargs) != 1:
        return None
    x = _only_input(args, kwargs)
    plain = isinstance(x, Tensor) and not torch.is_autocast_enabled(x.device.type)
    return function if plain and function.fits(layer, x) else None


def apply_function(
    function: LayerFunction[Any], layer: nn.Module, args: Any, kwargs: Any
) -> Tensor:
    """Returns the layer's output, a node of autograd's graph.

    Args:
        function: From ``function_of`` for this call.
        layer: The layer.
        args: Positional arguments of the call.
        kwargs: Keyword arguments of the call.
    """
    # Only a function with an input that requires a gradient enters the graph.
    anchor = torch.empty(0, requires_grad=True)
    x = _only_input(args, kwargs)
    out: Tensor = _LayerNode.apply(function, layer, anchor, x)  # type: ignore[no-untyped-call]
    return out


def _only_input(args: Any, kwargs: Any) -> Any:
    return [*args, *kwargs.values()][0]


class _LayerNode(torch.autograd.Function):
    """A layer as one node of autograd's graph, without an edge to its weights."""

    @staticmethod
    def forward(
        ctx: Any,
        function: LayerFunction[Any],
        layer: nn.Module,
        anchor: Tensor,
        x: Tensor,
    ) -> Tensor:
        """Returns the output; ``BackpropCapture`` adds callbacks to the node."""
        out, saved = function.forward(layer, x)
        ctx.function, ctx.layer, ctx.backprop_callbacks = function, layer, []
        ctx.save_for_backward(*saved)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Reports the output's gradient and returns the gradient of the input."""
        for callback in ctx.backprop_callbacks:
            callback(gradients[0])
        of_input = None
        if ctx.needs_input_grad[-1]:
            of_input = ctx.function.backward(ctx.layer, ctx.saved_tensors, gradients[0])
        return None, None, None, of_input

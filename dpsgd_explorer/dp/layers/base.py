"""What a layer must know to be trained with DP-SGD.

Notation of all rules: B samples, T positions, d inputs, p outputs; ``activations``
are the layer's inputs x, ``backprops`` the gradients g of the loss with respect to
its outputs.  Both carry the sample in their first dimension.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Generic, TypeVar

import torch
from torch import Tensor, nn

LayerT = TypeVar("LayerT", bound=nn.Module)


class LayerRule(ABC, Generic[LayerT]):
    """Per-sample gradients of one kind of layer.

    Only :meth:`per_sample_gradients` is required.  The other methods have slow,
    obviously right defaults; a rule overrides them where algebra gives the same
    numbers for less time or memory.
    """

    #: Methods that make the layer's output; a subclass that changes none of them
    #: computes the same thing and may use its parent's rule.
    forward_methods: ClassVar[tuple[str, ...]] = ("forward",)
    #: The parameters the rule knows; any other trainable one is refused.
    parameter_names: ClassVar[tuple[str, ...]] = ("weight", "bias")

    @abstractmethod
    def per_sample_gradients(
        self, layer: LayerT, activations: Tensor, backprops: Tensor
    ) -> dict[str, Tensor]:
        """Return {trainable parameter's local name: [B, *parameter.shape]}."""

    def squared_norms(
        self, layer: LayerT, activations: Tensor, backprops: Tensor
    ) -> Tensor:
        """Return the squared L2 norm over the layer's trainable parameters, [B]."""
        return gradient_squared_norms(
            self.per_sample_gradients(layer, activations, backprops)
        )

    def weighted_gradients(
        self,
        layer: LayerT,
        activations: Tensor,
        backprops: Tensor,
        weights: Tensor,
        sums: Mapping[str, Tensor],
    ) -> None:
        """Add sum_i weights[i] * gradient_i to ``sums``, {name: parameter.shape}."""
        add_weighted(
            self.per_sample_gradients(layer, activations, backprops), weights, sums
        )

    def prefers_ghost(
        self, layer: LayerT, activations: Tensor, backprops: Tensor
    ) -> bool:
        """Whether norms without gradients are the cheaper way for these shapes."""
        return False

    def refusal(self, layer: LayerT) -> str:
        """Return why this layer's settings rule it out, "" if they do not."""
        return ""


def gradient_squared_norms(gradients: Mapping[str, Tensor]) -> Tensor:
    """Return the squared norms of {name: [B, *shape]} taken together, [B]."""
    norms = [torch.linalg.vector_norm(g.flatten(1), dim=1) for g in gradients.values()]
    return torch.stack(norms).square().sum(0)


def add_weighted(
    gradients: Mapping[str, Tensor], weights: Tensor, sums: Mapping[str, Tensor]
) -> None:
    """Add sum_i weights[i] * gradients[name][i] to sums[name]."""
    for name, gradient in gradients.items():
        sums[name].view(-1).addmv_(gradient.flatten(1).t(), weights)


def trains(layer: nn.Module, name: str) -> bool:
    """Whether the layer has this parameter and wants its gradient.

    The engine asks autograd for no parameter gradient, so ``requires_grad`` is off
    while a pass is recorded; rules are called when it is on again.
    """
    parameter = getattr(layer, name, None)
    return parameter is not None and bool(parameter.requires_grad)


def scale_samples(values: Tensor, weights: Tensor) -> Tensor:
    """Return weights[i] * values[i] for every sample i, [B, ...]."""
    return values * weights.view(-1, *[1] * (values.dim() - 1))


def gram_norms(input_gram: Tensor, output_gram: Tensor) -> Tensor:
    """Return <K_i, R_i> for Gram matrices K, R, both [B, T, T], never below round-off.

    K_st = x_s.x_t and R_st = g_s.g_t give sum_st K_st R_st = ||sum_t g_t x_t^T||^2.
    The terms may cancel.  A result below what round-off could hide is replaced by
    that level, eps (sum_t ||x_t|| ||g_t||)^2: an underestimated norm would let a
    sample through that is longer than the bound.
    """
    products = (input_gram * output_gram).sum((-2, -1))
    lengths = input_gram.diagonal(dim1=-2, dim2=-1) * output_gram.diagonal(
        dim1=-2, dim2=-1
    )
    largest = lengths.clamp(min=0.0).sqrt().sum(-1).square()
    return torch.maximum(products, largest * torch.finfo(products.dtype).eps)

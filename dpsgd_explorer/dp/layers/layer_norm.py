"""Layer rule for ``nn.LayerNorm``: y = w xhat + b, one pair an entry.

xhat is standardised within one position, so the gradient of sample i is the sum over
positions of xhat g (weight) and of g (bias): always instantiated.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from dpsgd_explorer.dp.layers.base import LayerRule, trains


class LayerNormRule(LayerRule[nn.LayerNorm]):
    """Inputs and outputs [B, ..., *normalized_shape]."""

    def per_sample_gradients(
        self, layer: nn.LayerNorm, activations: Tensor, backprops: Tensor
    ) -> dict[str, Tensor]:
        gradients = {}
        if trains(layer, "weight"):
            standardised = F.layer_norm(
                activations, layer.normalized_shape, eps=layer.eps
            )
            gradients["weight"] = over_positions(
                standardised * backprops, len(layer.normalized_shape)
            )
        if trains(layer, "bias"):
            gradients["bias"] = over_positions(backprops, len(layer.normalized_shape))
        return gradients

    def wrong_input(self, layer: nn.LayerNorm, inputs: Tensor) -> str:
        return "" if self.position_dims(layer, inputs) else "takes a batch [B, ...]"

    def position_dims(self, layer: nn.LayerNorm, inputs: Tensor) -> int:
        return inputs.dim() - len(layer.normalized_shape)


def over_positions(values: Tensor, own_dims: int) -> Tensor:
    """Sum [B, ..., *shape] to [B, *shape], where the shape has so many dimensions."""
    between = tuple(range(1, values.dim() - own_dims))
    return values.sum(between) if between else values

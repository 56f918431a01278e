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
            gradients["weight"] = _over_positions(layer, standardised * backprops)
        if trains(layer, "bias"):
            gradients["bias"] = _over_positions(layer, backprops)
        return gradients


def _over_positions(layer: nn.LayerNorm, values: Tensor) -> Tensor:
    """Sum [B, ..., *normalized_shape] to [B, *normalized_shape]."""
    between = tuple(range(1, values.dim() - len(layer.normalized_shape)))
    return values.sum(between) if between else values

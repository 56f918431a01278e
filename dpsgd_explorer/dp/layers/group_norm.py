"""Layer rule for ``nn.GroupNorm``: y = w_c xhat + b_c, one pair a channel.

xhat is standardised within one sample, so the gradient of sample i is the sum over
positions of xhat g (weight) and of g (bias).  There are C of each: always instantiated.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from dpsgd_explorer.dp.layers.base import LayerRule, trains


class GroupNormRule(LayerRule[nn.GroupNorm]):
    """Inputs and outputs [B, C, ...]."""

    def per_sample_gradients(
        self, layer: nn.GroupNorm, activations: Tensor, backprops: Tensor
    ) -> dict[str, Tensor]:
        gradients = {}
        if trains(layer, "weight"):
            standardised = F.group_norm(activations, layer.num_groups, eps=layer.eps)
            gradients["weight"] = over_positions(standardised * backprops)
        if trains(layer, "bias"):
            gradients["bias"] = over_positions(backprops)
        return gradients

    def wrong_input(self, layer: nn.GroupNorm, inputs: Tensor) -> str:
        return "" if inputs.dim() > 1 else "takes a batch [B, C, ...]"


def over_positions(values: Tensor) -> Tensor:
    """Sum [B, C, ...] to [B, C]."""
    return values if values.dim() == 2 else values.flatten(2).sum(2)

"""Layer rule for ``nn.PReLU``: y = x above 0 and w x below, one w or one a channel.

The gradient of sample i is the sum of x g over the positions with x < 0: always
instantiated.
"""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from dpsgd_explorer.dp.layers.base import LayerRule
from dpsgd_explorer.dp.layers.group_norm import over_positions


class PReLURule(LayerRule[nn.PReLU]):
    """Inputs and outputs [B, ...], with the channels in the second dimension."""

    parameter_names: ClassVar[tuple[str, ...]] = ("weight",)

    def per_sample_gradients(
        self, layer: nn.PReLU, activations: Tensor, backprops: Tensor
    ) -> dict[str, Tensor]:
        slopes = activations.clamp(max=0.0) * backprops
        if layer.num_parameters == 1:
            return {"weight": over_positions(slopes.unsqueeze(1))}
        return {"weight": over_positions(slopes)}

    def wrong_input(self, layer: nn.PReLU, inputs: Tensor) -> str:
        needed = 1 if layer.num_parameters == 1 else 2
        return "" if inputs.dim() >= needed else "takes a batch [B, C, ...]"

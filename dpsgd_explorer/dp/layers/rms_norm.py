"""Layer rule for ``nn.RMSNorm``: y = w xhat, one weight an entry.

xhat = x / sqrt(mean(x^2) + eps) within one position, so the gradient of sample i is the
sum over positions of xhat g: always instantiated.
"""

from __future__ import annotations

from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from dpsgd_explorer.dp.layers.base import LayerRule
from dpsgd_explorer.dp.layers.layer_norm import over_positions


class RMSNormRule(LayerRule[nn.RMSNorm]):
    """Inputs and outputs [B, ..., *normalized_shape]."""

    parameter_names: ClassVar[tuple[str, ...]] = ("weight",)

    def per_sample_gradients(
        self, layer: nn.RMSNorm, activations: Tensor, backprops: Tensor
    ) -> dict[str, Tensor]:
        shape = layer.normalized_shape
        standardised = F.rms_norm(activations, shape, eps=layer.eps)
        return {"weight": over_positions(standardised * backprops, len(shape))}

    def wrong_input(self, layer: nn.RMSNorm, inputs: Tensor) -> str:
        return "" if self.position_dims(layer, inputs) else "takes a batch [B, ...]"

    def position_dims(self, layer: nn.RMSNorm, inputs: Tensor) -> int:
        return inputs.dim() - len(layer.normalized_shape)

"""Layer rule for ``nn.InstanceNorm1d``, ``2d``, ``3d``: y = w_c xhat + b_c.

xhat is standardised within one channel of one sample, so the gradient of sample i is
the sum over positions of xhat g (weight) and of g (bias): always instantiated.
Running statistics are refused: they remember what the samples were.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.instancenorm import _InstanceNorm

from dpsgd_explorer.dp.layers.base import LayerRule, trains
from dpsgd_explorer.dp.layers.group_norm import over_positions

#: Dimensions of a batch [B, C, ...].
RANKS: dict[type[nn.Module], int] = {
    nn.InstanceNorm1d: 3,
    nn.InstanceNorm2d: 4,
    nn.InstanceNorm3d: 5,
}


class InstanceNormRule(LayerRule[_InstanceNorm]):
    """Inputs and outputs [B, C, ...] with one, two or three positions' dimensions."""

    def per_sample_gradients(
        self, layer: _InstanceNorm, activations: Tensor, backprops: Tensor
    ) -> dict[str, Tensor]:
        gradients = {}
        if trains(layer, "weight"):
            standardised = _standardised(activations, layer.eps)
            gradients["weight"] = over_positions(standardised * backprops)
        if trains(layer, "bias"):
            gradients["bias"] = over_positions(backprops)
        return gradients

    def wrong_input(self, layer: _InstanceNorm, inputs: Tensor) -> str:
        rank = next(rank for kind, rank in RANKS.items() if isinstance(layer, kind))
        return "" if inputs.dim() == rank else f"takes a batch of {rank} dimensions"

    def refusal(self, layer: _InstanceNorm) -> str:
        return (
            "track_running_stats stores statistics of the samples without noise"
            if layer.track_running_stats
            else ""
        )


def _standardised(x: Tensor, eps: float) -> Tensor:
    return F.instance_norm(x, eps=eps) if len(x) else x

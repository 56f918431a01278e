"""Layer rule for ``nn.Linear``: y = x W^T + b, shared by T positions.

The gradient of sample i is sum_t g_it x_it^T.  Its squared norm needs no gradient:
||sum_t g_t x_t^T||^2 = sum_st (x_s.x_t)(g_s.g_t), two T by T Gram matrices, and for
T = 1 just ||x||^2 ||g||^2.  A bias is a weight on a constant input of 1.

Source: Goodfellow (2015), arXiv:1510.01799 (T = 1); Li et al. (2022),
arXiv:2110.05679, section 4 (sequences, there called ghost clipping).
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from dpsgd_explorer.dp.layers.base import LayerRule, gram_norms, scale_samples, trains


class LinearRule(LayerRule[nn.Linear]):
    """Inputs [B, d] or [B, ..., d]; everything between is positions."""

    def per_sample_gradients(
        self, layer: nn.Linear, activations: Tensor, backprops: Tensor
    ) -> dict[str, Tensor]:
        x, g = _positions(activations), _positions(backprops)
        gradients = {}
        if trains(layer, "weight"):
            gradients["weight"] = torch.bmm(g.transpose(1, 2), x)  # [B, p, d]
        if trains(layer, "bias"):
            gradients["bias"] = g.sum(1)  # [B, p]
        return gradients

    def squared_norms(
        self, layer: nn.Linear, activations: Tensor, backprops: Tensor
    ) -> Tensor:
        x, g = _positions(activations), _positions(backprops)
        if x.shape[1] == 1:
            return _single_position_norms(layer, x[:, 0], g[:, 0])
        if not trains(layer, "weight"):
            return g.sum(1).square().sum(1)
        x_gram = torch.bmm(x, x.transpose(1, 2))  # [B, T, T]
        if trains(layer, "bias"):
            x_gram += 1.0
        return gram_norms(x_gram, torch.bmm(g, g.transpose(1, 2)))

    def weighted_gradients(
        self,
        layer: nn.Linear,
        activations: Tensor,
        backprops: Tensor,
        weights: Tensor,
        sums: Mapping[str, Tensor],
    ) -> None:
        g = scale_samples(_positions(backprops), weights).flatten(0, 1)  # [B T, p]
        if trains(layer, "weight"):
            x = _positions(activations).flatten(0, 1)  # [B T, d]
            sums["weight"].addmm_(g.t(), x)
        if trains(layer, "bias"):
            sums["bias"].add_(g.sum(0))

    def prefers_ghost(
        self, layer: nn.Linear, activations: Tensor, backprops: Tensor
    ) -> bool:
        """Compare multiply-adds a sample: T^2 (d + p) against T d p."""
        d, p = layer.in_features, layer.out_features
        positions = _positions(activations).shape[1]
        return positions == 1 or positions * (d + p) < d * p


def _single_position_norms(layer: nn.Linear, x: Tensor, g: Tensor) -> Tensor:
    g_squared: Tensor = torch.linalg.vector_norm(g, dim=1).square()
    if not trains(layer, "weight"):
        return g_squared
    x_squared: Tensor = torch.linalg.vector_norm(x, dim=1).square()
    if trains(layer, "bias"):
        x_squared += 1.0
    return x_squared * g_squared


def _positions(values: Tensor) -> Tensor:
    """View [B, n] or [B, ..., n] as [B, T, n], also when B is 0."""
    return values.unsqueeze(1) if values.dim() == 2 else values.flatten(1, -2)

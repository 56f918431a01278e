"""Layer rule for ``nn.Linear``: y = x W^T + b, shared by T positions.

The gradient of sample i is sum_t g_it x_it^T.  The squared norm needs no gradient:
||sum_t g_t x_t^T||^2 = sum_st (x_s.x_t)(g_s.g_t), from two T by T Gram matrices.  For
T = 1 it is ||x||^2 ||g||^2.  A bias is a weight on a constant input of 1.

Source: Goodfellow (2015), arXiv:1510.01799 (T = 1); Li et al. (2022),
arXiv:2110.05679, section 4 (sequences, there called ghost clipping).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from dpsgd_explorer.dp.backends import backend_of
from dpsgd_explorer.dp.backends.linear import (
    LinearGradients,
    LinearMap,
    OuterProductCall,
)
from dpsgd_explorer.dp.backends.rounding import vector_norms
from dpsgd_explorer.dp.layers.base import (
    LayerRule,
    measured,
    scale_samples,
    trained,
    trains,
)
from dpsgd_explorer.dp.layers.cross_terms import OuterProduct
from dpsgd_explorer.dp.layers.matrix_norm import MatrixNorm, MatrixSizes
from dpsgd_explorer.dp.layers.round_off import gram, gram_norms


class LinearNorm(MatrixNorm[nn.Linear]):
    """The ghost norm of a linear layer; see the module's docstring."""

    def squared_norms(
        self, layer: nn.Linear, activations: Tensor, backprops: Tensor
    ) -> Tensor:
        call = _outer_product_call(layer, activations, backprops)
        if call is not None:
            return backend_of(backprops).outer_product_norms([call])[0]
        x, g = _positions(activations, backprops)
        if not trains(layer, "weight"):
            return vector_norms(g.sum(1)).square_()
        if x.shape[1] == 1:
            return vector_norms(x[:, 0]).mul_(vector_norms(g[:, 0])).square_()
        x_gram = gram(x)  # [B, T, T]
        if trains(layer, "bias"):
            x_gram = x_gram.plus_one()
        return gram_norms(x_gram, gram(g))

    def add_weighted(
        self,
        layer: nn.Linear,
        activations: Tensor,
        backprops: Tensor,
        weights: Tensor,
        sums: Mapping[str, Tensor],
    ) -> None:
        if "weight" not in sums:
            sums["bias"].addmv_(_bias_gradients(backprops).t(), weights)
            return
        if backprops.dim() > 2:
            scaled = scale_samples(backprops, weights).flatten(0, -2)  # [B T, p]
            activations = activations.flatten(0, -2)
        else:
            scaled = backprops * weights.unsqueeze(1)
        sums["weight"].addmm_(scaled.t(), activations)
        if "bias" in sums:
            sums["bias"].add_(scaled.sum(0))

    def outer_products(
        self, layer: nn.Linear, activations: Tensor, backprops: Tensor
    ) -> dict[str, OuterProduct]:
        x, g = _positions(activations, backprops)
        bias = OuterProduct(g, torch.ones_like(x[..., :1]))
        return trained(layer, {"weight": OuterProduct(g, x), "bias": bias})

    def sizes(
        self, layer: nn.Linear, activations: Tensor, backprops: Tensor
    ) -> MatrixSizes:
        positions = 1 if activations.dim() == 2 else activations.shape[1:-1].numel()
        return MatrixSizes(positions, layer.in_features, layer.out_features)


class LinearRule(LayerRule[nn.Linear]):
    """Inputs [B, d] or [B, ..., d]; the dimensions between are positions."""

    reads_parameters: ClassVar[bool] = False
    ghost_norm: ClassVar[LinearNorm] = LinearNorm()
    of_low_precision: ClassVar[bool] = True
    bias_needs_no_activations: ClassVar[bool] = True

    def per_sample_gradients(
        self, layer: nn.Linear, activations: Tensor, backprops: Tensor
    ) -> dict[str, Tensor]:
        if not trains(layer, "weight"):
            return {"bias": _bias_gradients(backprops)}
        return _gradients(layer, activations, backprops).named()

    def measured_gradients(
        self, layer: nn.Linear, activations: Tensor, backprops: Tensor
    ) -> tuple[dict[str, Tensor], Tensor]:
        gradients = _gradients(layer, activations, backprops)
        return measured(gradients.named(), gradients.squared_norms)

    def linear_form(
        self, layer: nn.Linear, activations: Tensor, backprops: Tensor
    ) -> Mapping[str, LinearMap]:
        if not trains(layer, "weight"):
            return {}
        x, g = _positions(activations, backprops)
        return {"": LinearMap(x, g, trains(layer, "bias"))}

    def wrong_input(self, layer: nn.Linear, inputs: Tensor) -> str:
        return "" if inputs.dim() > 1 else "takes a batch [B, ..., d]"

    def position_dims(self, layer: nn.Linear, inputs: Tensor) -> int:
        return inputs.dim() - 1


def _gradients(
    layer: nn.Linear, activations: Tensor, backprops: Tensor
) -> LinearGradients:
    return backend_of(backprops).linear_gradients(
        *_positions(activations, backprops),
        weight=trains(layer, "weight"),
        bias=trains(layer, "bias"),
    )


def _outer_product_call(
    layer: nn.Linear, activations: Tensor, backprops: Tensor
) -> OuterProductCall | None:
    if activations.dim() > 2:
        if activations.shape[1:-1].numel() != 1:
            return None
        activations, backprops = activations.flatten(1), backprops.flatten(1)
    if trains(layer, "weight") and trains(layer, "bias"):
        return OuterProductCall(activations, backprops)
    return None


def _positions(x: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    """Returns [B, d] and [B, p], or [B, ..., d] and [B, ..., p], with T positions.

    The results are views [B, T, d] and [B, T, p], also if B is 0.
    """
    if g.dim() == 2:
        return x.unsqueeze(1), g.unsqueeze(1)
    return x.flatten(1, -2), g.flatten(1, -2)


def _bias_gradients(backprops: Tensor) -> Tensor:
    """Returns the sum over positions, [B, p] or [B, ..., p] -> [B, p]."""
    g = backprops.unsqueeze(1) if backprops.dim() == 2 else backprops.flatten(1, -2)
    return g.sum(1)

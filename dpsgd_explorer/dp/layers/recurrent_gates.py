"""Layer rule for the two linear maps of a recurrent cell, over all its steps.

The weights W_ih and W_hh act on x_t and h_{t-1} at every step, so a sample's gradients
are sum_t g_t x_t^T and sum_t g_t h_{t-1}^T with g_t the gradient at the gates.  Where
both maps see the same g (all cells but the GRU) their squared norms share one Gram
matrix: <X X^T + H H^T + 2, G G^T>, with a 1 for each bias.

In a GRU the hidden half of the candidate is multiplied by the reset gate, so the gates
have four blocks [r, z, n_h, n_x].  The hidden map uses r, z and n_h, and the input map
uses r, z and n_x.

Source: derived here from Li et al. (2022), arXiv:2110.05679, section 4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from dpsgd_explorer.dp.backends import backend_of
from dpsgd_explorer.dp.backends.linear import LinearGradients, LinearMap
from dpsgd_explorer.dp.layers.base import (
    GradientRule,
    measured,
    scale_samples,
    trained,
    trains,
)
from dpsgd_explorer.dp.layers.cross_terms import OuterProduct
from dpsgd_explorer.dp.layers.ghost_norm import GhostNorm, MultiplyAdds
from dpsgd_explorer.dp.layers.matrix_norm import cost_ratio
from dpsgd_explorer.dp.layers.rewrite import LayerPart
from dpsgd_explorer.dp.layers.round_off import Gram, gram, gram_norms, inflation

#: Inputs [B, T, I] and hidden states before each step [B, T, H].
Steps = tuple[Tensor, Tensor]

MAPS = ("ih", "hh")
KINDS = ("weight", "bias")


class GatesNorm(GhostNorm[LayerPart, Steps]):
    """The ghost norm of both maps together."""

    def squared_norms(
        self, layer: LayerPart, activations: Steps, backprops: Tensor
    ) -> Tensor:
        grams = [
            _input_gram(layer, name, values)
            for name, values in zip(MAPS, activations, strict=True)
        ]
        gates = gates_of(layer, backprops)
        if not splits_candidate(layer, backprops):
            return gram_norms(grams[0].plus(grams[1]), gram(gates[0]))
        norms = [gram_norms(k, gram(g)) for k, g in zip(grams, gates, strict=True)]
        return norms[0] + norms[1]

    def add_weighted(
        self,
        layer: LayerPart,
        activations: Steps,
        backprops: Tensor,
        weights: Tensor,
        sums: Mapping[str, Tensor],
    ) -> None:
        positions = weights.repeat_interleave(backprops.shape[1])  # [B T]
        gates = gates_of(layer, backprops)
        for name, values, g in zip(MAPS, activations, gates, strict=True):
            g = g.flatten(0, 1)  # [B T, k H]
            # The weights scale the values, which are narrower than the gates.
            if f"weight_{name}" in sums:
                scaled = scale_samples(values, weights).flatten(0, 1)
                sums[f"weight_{name}"].addmm_(g.t(), scaled)
            if f"bias_{name}" in sums:
                sums[f"bias_{name}"].addmv_(g.t(), positions)

    def multiply_adds(
        self, layer: LayerPart, activations: Steps, backprops: Tensor
    ) -> MultiplyAdds:
        """Returns T^2 (I + H + k H) and T (I + H) k H; a GRU reads k H gates twice."""
        steps = backprops.shape[1]
        read, entries = _read_and_entries(layer, activations, backprops)
        return MultiplyAdds(steps**2 * read, steps * entries)

    def cost_ratio(
        self, layer: LayerPart, activations: Steps, backprops: Tensor
    ) -> float:
        read, entries = _read_and_entries(layer, activations, backprops)
        return cost_ratio(backprops.shape[1], read, entries)

    def inflation(
        self, layer: LayerPart, activations: Steps, backprops: Tensor
    ) -> float:
        inputs, hidden = activations
        steps, width = backprops.shape[1:]
        return inflation(steps, inputs.shape[2] + hidden.shape[2], width)

    def outer_products(
        self, layer: LayerPart, activations: Steps, backprops: Tensor
    ) -> dict[str, OuterProduct]:
        products = {}
        gates = gates_of(layer, backprops)
        for name, values, g in zip(MAPS, activations, gates, strict=True):
            products[f"weight_{name}"] = OuterProduct(g, values)
            products[f"bias_{name}"] = OuterProduct(g, torch.ones_like(g[..., :1]))
        return trained(layer, products)


class GatesRule(GradientRule[LayerPart, Steps]):
    """Backprops: gradients at the gates, [B, T, k H]; k = 1 (RNN) or 4 (LSTM, GRU)."""

    parameter_names: ClassVar[tuple[str, ...]] = (
        "weight_ih",
        "weight_hh",
        "bias_ih",
        "bias_hh",
    )
    ghost_norm: ClassVar[GatesNorm] = GatesNorm()

    def saved_activations(self, layer: LayerPart, args: Any, kwargs: Any) -> Steps:
        """Returns the two inputs, as ``RecurrentRewrite`` passes them."""
        inputs, hidden = args
        return inputs, hidden

    def per_sample_gradients(
        self, layer: LayerPart, activations: Steps, backprops: Tensor
    ) -> dict[str, Tensor]:
        return _named(_gradients(layer, activations, backprops))

    def measured_gradients(
        self, layer: LayerPart, activations: Steps, backprops: Tensor
    ) -> tuple[dict[str, Tensor], Tensor]:
        gradients = _gradients(layer, activations, backprops)
        norms = [
            measured(of_map.named(), of_map.squared_norms)[1]
            for of_map in gradients.values()
        ]
        return _named(gradients), backend_of(backprops).sum_of(norms)

    def linear_form(
        self, layer: LayerPart, activations: Steps, backprops: Tensor
    ) -> Mapping[str, LinearMap]:
        maps = {}
        gates = gates_of(layer, backprops)
        for name, values, g in zip(MAPS, activations, gates, strict=True):
            if not trains(layer, f"weight_{name}"):
                return {}
            maps[f"_{name}"] = LinearMap(values, g, trains(layer, f"bias_{name}"))
        return maps


def splits_candidate(layer: LayerPart, backprops: Tensor) -> bool:
    """Returns True if a GRU's candidate has separate gates for both maps.

    The backprops then have four blocks, and the weights three.
    """
    return backprops.shape[2] != len(layer.weight_hh)


def gates_of(layer: LayerPart, backprops: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the gates of the input's and of the hidden state's map, [B, T, .]."""
    if not splits_candidate(layer, backprops):
        return backprops, backprops
    width = backprops.shape[2] // 4
    shared, n_x = backprops[..., : 2 * width], backprops[..., 3 * width :]
    return torch.cat([shared, n_x], 2), backprops[..., : 3 * width]


def _gradients(
    layer: LayerPart, activations: Steps, backprops: Tensor
) -> dict[str, LinearGradients]:
    """Returns the gradients of each map that is trained."""
    maps = {}
    gates = gates_of(layer, backprops)
    for name, values, g in zip(MAPS, activations, gates, strict=True):
        weight, bias = (trains(layer, f"{kind}_{name}") for kind in KINDS)
        if weight or bias:
            maps[name] = backend_of(g).linear_gradients(
                values, g, weight=weight, bias=bias
            )
    return maps


def _read_and_entries(
    layer: LayerPart, activations: Steps, backprops: Tensor
) -> tuple[int, int]:
    """Returns I + H plus the gates of both maps, and the entries of a gradient."""
    inputs, hidden = activations
    values, written = inputs.shape[2] + hidden.shape[2], len(layer.weight_hh)
    gates = 2 * written if splits_candidate(layer, backprops) else backprops.shape[2]
    return values + gates, values * written


def _named(maps: Mapping[str, LinearGradients]) -> dict[str, Tensor]:
    """Returns {parameter's name: gradients} of the maps by name."""
    named: dict[str, Tensor] = {}
    for name, gradients in maps.items():
        named |= gradients.named(*(f"{kind}_{name}" for kind in KINDS))
    return named


def _input_gram(layer: LayerPart, name: str, values: Tensor) -> Gram:
    """Returns x_s.x_t if the weight is trained, plus 1 if the bias is trained."""
    if trains(layer, f"weight_{name}"):
        products = gram(values)
    else:
        steps = values.shape[1]
        products = Gram(values.new_zeros(len(values), steps, steps), 0, 0)
    return products.plus_one() if trains(layer, f"bias_{name}") else products

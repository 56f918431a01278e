"""Samples whose gradients are at hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from torch import Tensor

from dpsgd_explorer.dp.engines.samples import Samples, Sums, full_name
from dpsgd_explorer.dp.layers.base import add_weighted, gradient_squared_norms

Gradients = dict[str, dict[str, Tensor]]


class StoredSamples(Samples):
    """Samples with their gradients, {unit: {local name: [B, *shape]}}."""

    def __init__(self, gradients: Gradients, size: int) -> None:
        self._gradients = gradients
        self._size = size

    def __len__(self) -> int:
        return self._size

    def squared_norms(self) -> dict[str, Tensor]:
        return {
            layer: gradient_squared_norms(own) for layer, own in self._gradients.items()
        }

    def add_weighted_gradients(self, weights: Mapping[str, Tensor], sums: Sums) -> None:
        for layer, own in self._gradients.items():
            add_weighted(own, weights[layer], sums[layer])

    def per_sample_gradients(self) -> dict[str, Tensor]:
        return {
            full_name(layer, local): gradient
            for layer, own in self._gradients.items()
            for local, gradient in own.items()
        }

    def take(self, index: Tensor) -> Self:
        gradients = {
            layer: {local: g[index] for local, g in own.items()}
            for layer, own in self._gradients.items()
        }
        return type(self)(gradients, len(index))

"""The per-sample gradients of canaries: one number each, in a place of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import torch
from torch import Tensor

from dpsgd_explorer.dp.engines.base import GradientSums, NormTerm, PerSampleGradients

#: Names of the only unit and of its only parameter.
UNIT, PARAMETER = "canaries", "directions"


class CanaryGradients(PerSampleGradients):
    """Gradients ``length * sign_i * e_i`` of the canaries i that were drawn.

    Args:
        drawn: The canaries' places, int64 [B].
        length: Length of each gradient.
        signs: 1 or -1, float [count].
    """

    def __init__(self, drawn: Tensor, length: float, signs: Tensor) -> None:
        self._drawn, self._length, self._signs = drawn, length, signs

    def __len__(self) -> int:
        return len(self._drawn)

    def norm_terms(self) -> list[NormTerm]:
        """Return the squared lengths, [B]."""
        squared = self._length**2
        return [(UNIT, torch.full((len(self),), squared, dtype=torch.float64))]

    def add_weighted(self, weights: Mapping[str, Tensor], sums: GradientSums) -> None:
        """Add each clipped gradient at its canary's place."""
        total = sums[UNIT][PARAMETER]
        signed = self._signs[self._drawn] * self._length
        clipped = (weights[UNIT] * signed).to(total.dtype)
        total.index_add_(0, self._drawn, clipped)

    def materialize(self) -> dict[str, Tensor]:
        """Return {parameter's name: gradients, [B, count]}."""
        whole = torch.zeros(len(self), len(self._signs), dtype=torch.float64)
        signed = self._signs[self._drawn] * self._length
        whole[torch.arange(len(self)), self._drawn] = signed
        return {f"{UNIT}.{PARAMETER}": whole}

    def take(self, index: Tensor) -> Self:
        """Return the gradients of the samples at these positions, in this order."""
        return type(self)(self._drawn[index], self._length, self._signs)

"""The per-sample gradients of canaries, which have one entry each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import torch
from torch import Tensor

from dpsgd_explorer.dp.engines.base import GradientSums, NormTerm, PerSampleGradients

#: Names of the only unit and of its only parameter.
UNIT, PARAMETER = "canaries", "directions"


class CanaryGradients(PerSampleGradients):
    """Gradients ``norm * sign_i * e_i`` of the drawn canaries i.

    Args:
        drawn: Indices of the canaries, int64 [B].
        norm: Norm of each gradient.
        signs: 1 or -1, float [count].
    """

    def __init__(self, drawn: Tensor, norm: float, signs: Tensor) -> None:
        self._drawn, self._norm, self._signs = drawn, norm, signs

    def __len__(self) -> int:
        return len(self._drawn)

    def norm_terms(self) -> list[NormTerm]:
        """Returns the squared norms, [B]."""
        squared = self._norm**2
        return [(UNIT, torch.full((len(self),), squared, dtype=torch.float64))]

    def add_weighted(self, weights: Mapping[str, Tensor], sums: GradientSums) -> None:
        """Adds each clipped gradient at the index of its canary."""
        total = sums[UNIT][PARAMETER]
        signed = self._signs[self._drawn] * self._norm
        clipped = (weights[UNIT] * signed).to(total.dtype)
        total.index_add_(0, self._drawn, clipped)

    def materialize(self) -> dict[str, Tensor]:
        """Returns {name of the parameter: gradients, [B, count]}."""
        whole = torch.zeros(len(self), len(self._signs), dtype=torch.float64)
        signed = self._signs[self._drawn] * self._norm
        whole[torch.arange(len(self)), self._drawn] = signed
        return {f"{UNIT}.{PARAMETER}": whole}

    def take(self, index: Tensor) -> Self:
        """Returns the gradients of the samples at these positions, in this order."""
        return type(self)(self._drawn[index], self._norm, self._signs)

"""Calls on a device whose gradients are instantiated, measured and summed together.

A call from Python takes a device as long as the work of a small layer.  Here a layer's
own calls are those that make its gradients; norms and weighted sums of all layers take
a few for the whole piece of the batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple, Self

import torch
from torch import Tensor

from dpsgd_explorer.dp.backends import backend_of
from dpsgd_explorer.dp.engines.base import GradientSums, NormTerm
from dpsgd_explorer.dp.engines.call_groups import (
    CallGradients,
    SharedCalls,
    SingleCall,
)
from dpsgd_explorer.dp.engines.layer_calls import (
    GradientTarget,
    LayerCall,
    ParameterKey,
)


class _Made(NamedTuple):
    """Gradients that were made.

    Attributes:
        target: Where they belong.
        rows: [B, *shape], contiguous.
    """

    target: GradientTarget
    rows: Tensor


class DeviceCalls(CallGradients):
    """Some samples of parts whose gradients are instantiated and kept.

    Args:
        parts: The parts.
        scale: As of ``CallGradients``.
    """

    def __init__(self, parts: list[CallGradients], scale: float = 1.0) -> None:
        calls: list[LayerCall] = [call for part in parts for call in part._calls]
        super().__init__(calls, scale)
        self._parts = parts
        self._made: list[_Made] = []

    def _unscaled_terms(self) -> list[NormTerm]:
        self._made = self._make()
        rows = [made.rows for made in self._made]
        found = backend_of(rows[0]).squared_norms(rows)
        units = tuple([made.target.unit for made in self._made])
        distinct = list(dict.fromkeys(units))
        if len(distinct) < len(units):
            found = (_sums_by_unit(units, found.device) @ found.double()).float()
        return list(zip(distinct, found.unbind(0), strict=True))

    def whole_gradients(self) -> dict[ParameterKey, Tensor]:
        every = (part.whole_gradients() for part in self._parts)
        return {key: gradient for own in every for key, gradient in own.items()}

    def add_weighted(self, weights: Mapping[str, Tensor], sums: GradientSums) -> None:
        made = self._made or self._make()
        scaled = self._scaled(weights, sums)
        backend_of(made[0].rows).add_weighted(
            [each.rows for each in made],
            [scaled[each.target.unit] for each in made],
            [each.target.of(sums) for each in made],
        )

    def take(self, index: Tensor | slice) -> Self:
        return type(self)([part.take(index) for part in self._parts], self._scale)

    def _make(self) -> list[_Made]:
        return [
            _Made(target, gradient.contiguous())
            for part in self._parts
            for target, gradient in part.targeted_gradients()
        ]


def joined_on_device(
    parts: Iterable[CallGradients], scale: float
) -> list[CallGradients]:
    """Return the parts, those whose gradients a device keeps as one."""
    others: list[CallGradients] = []
    keeping: list[CallGradients] = []
    for part in parts:
        if isinstance(part, SingleCall | SharedCalls) and part.joins_layers():
            keeping.append(part)
        else:
            others.append(part)
    return [DeviceCalls(keeping, scale), *others] if keeping else others


@lru_cache(maxsize=64)
def _sums_by_unit(units: tuple[str, ...], device: torch.device) -> Tensor:
    """Return the matrix that adds up the rows of each unit, [units, n]."""
    distinct = {unit: place for place, unit in enumerate(dict.fromkeys(units))}
    matrix = torch.zeros(len(distinct), len(units), dtype=torch.float64)
    for column, unit in enumerate(units):
        matrix[distinct[unit], column] = 1.0
    return matrix.to(device)

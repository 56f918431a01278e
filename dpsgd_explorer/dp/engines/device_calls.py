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
from dpsgd_explorer.dp.engines.base import GradientSums
from dpsgd_explorer.dp.engines.call_groups import (
    LayerCallGroup,
    SharedLayerCalls,
    SingleLayerCall,
)
from dpsgd_explorer.dp.engines.layer_calls import GradientTarget, ParameterKey

KeepingGroup = SingleLayerCall | SharedLayerCalls


class _Made(NamedTuple):
    """Gradients that were made.

    Attributes:
        target: Where they belong.
        rows: [B, *shape], contiguous.
    """

    target: GradientTarget
    rows: Tensor


class DeviceCalls:
    """Some samples of groups of calls, each with gradients that are kept.

    Args:
        groups: The groups.
    """

    def __init__(self, groups: list[KeepingGroup]) -> None:
        self._groups = groups
        self._made: list[_Made] = []

    def squared_norms(self) -> list[tuple[str, Tensor]]:
        self._made = self._make()
        rows = [made.rows for made in self._made]
        found = backend_of(rows[0]).squared_norms(rows)
        units = tuple([made.target.unit for made in self._made])
        distinct = list(dict.fromkeys(units))
        if len(distinct) < len(units):
            found = (_sums_by_unit(units, found.device) @ found.double()).float()
        return list(zip(distinct, found.unbind(0), strict=True))

    def single_position(self) -> None:
        """Return None: norms are made of gradients."""

    def materialize(self) -> dict[ParameterKey, Tensor]:
        every = (group.materialize() for group in self._groups)
        return {key: gradient for own in every for key, gradient in own.items()}

    def add_weighted(self, weights: Mapping[str, Tensor], sums: GradientSums) -> None:
        made = self._made or self._make()
        backend_of(made[0].rows).add_weighted(
            [each.rows for each in made],
            [weights[each.target.unit] for each in made],
            [each.target.of(sums) for each in made],
        )

    def take(self, index: Tensor | slice) -> Self:
        return type(self)([group.take(index) for group in self._groups])

    def gradient_bytes(self) -> int:
        return sum(group.gradient_bytes() for group in self._groups)

    def keys(self) -> frozenset[ParameterKey]:
        return frozenset().union(*(group.keys() for group in self._groups))

    def _make(self) -> list[_Made]:
        return [
            _Made(target, gradient.contiguous())
            for group in self._groups
            for target, gradient in group.make_gradients()
        ]


def joined_on_device(groups: Iterable[LayerCallGroup]) -> list[LayerCallGroup]:
    """Return the groups, those whose gradients a device keeps as one."""
    others: list[LayerCallGroup] = []
    keeping: list[KeepingGroup] = []
    for group in groups:
        if isinstance(group, KeepingGroup) and group.joins_layers():
            keeping.append(group)
        else:
            others.append(group)
    return [DeviceCalls(keeping), *others] if keeping else others


@lru_cache(maxsize=64)
def _sums_by_unit(units: tuple[str, ...], device: torch.device) -> Tensor:
    """Return the matrix that adds up the rows of each unit, [units, n]."""
    distinct = {unit: place for place, unit in enumerate(dict.fromkeys(units))}
    matrix = torch.zeros(len(distinct), len(units), dtype=torch.float64)
    for column, unit in enumerate(units):
        matrix[distinct[unit], column] = 1.0
    return matrix.to(device)

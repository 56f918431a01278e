"""Layer calls whose gradients are computed, measured and summed together.

A chunk of the batch contains few samples, so a call from Python can take as long as the
work of a small layer.  The classes of this module replace one call per layer by one
call for all layers:

- :class:`LinearCalls` puts the linear maps of all layers into one table, which is built
  once per pass.  A chunk takes one call of the backend for gradients and norms, and one
  call for the weighted sum.
- :class:`DeviceCalls` computes gradients layer by layer on a device.  Norms and
  weighted sums of all layers take a few calls per chunk.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple, Self

import torch
from torch import Tensor

from dpsgd_explorer.dp.backends import backend_of
from dpsgd_explorer.dp.backends.linear import JoinedGradients, JoinedMaps, LinearMap
from dpsgd_explorer.dp.engines.base import GradientSums, NormTerm
from dpsgd_explorer.dp.engines.call_groups import (
    CallGradients,
    SharedCalls,
    SingleCall,
    summed_gradients,
)
from dpsgd_explorer.dp.engines.layer_calls import (
    GradientTarget,
    LayerCall,
    ParameterKey,
)


class _Owner(NamedTuple):
    """The layer call that a map belongs to.

    Attributes:
        call: The call.
        unit: Clipping unit of its parameters.
        suffix: Suffix of the names of the map's parameters.
    """

    call: LayerCall
    unit: str
    suffix: str


class _Table(NamedTuple):
    """The maps of some calls as one table.

    Attributes:
        maps: The table.
        owners: Owner of each map.
    """

    maps: JoinedMaps
    owners: list[_Owner]


class LinearCalls(CallGradients):
    """Some samples of calls that are linear maps, each the only one of its parameters.

    Args:
        calls: The calls, of all samples.
        scale: As of ``CallGradients``.
        samples: Which of the samples; all if None.
        table: Their maps, if they are known.
    """

    def __init__(
        self,
        calls: list[LayerCall],
        scale: float = 1.0,
        samples: range | None = None,
        table: _Table | None = None,
    ) -> None:
        super().__init__(calls, scale)
        self._table = _table_of(calls) if table is None else table
        if samples is None:
            samples = range(self._table.maps.batch_size)
        self._samples = samples
        self._made: JoinedGradients | None = None

    def __len__(self) -> int:
        return len(self._samples)

    def _unscaled_terms(self) -> list[NormTerm]:
        self._made = self._table.maps.products(self._samples)
        norms = self._made.squared_norms.unbind(0)
        units = [owner.unit for owner in self._table.owners]
        return list(zip(units, norms, strict=True))

    def whole_gradients(self) -> dict[ParameterKey, Tensor]:
        return summed_gradients(self._taken(slice(None)))

    def add_weighted(self, weights: Mapping[str, Tensor], sums: GradientSums) -> None:
        made = self._made or self._table.maps.products(self._samples)
        scaled, owners = self._scaled(weights, sums), self._table.owners
        made.add_weighted(
            [scaled[owner.unit] for owner in owners],
            [owner.call.totals_of(owner.suffix, sums) for owner in owners],
        )

    def take(self, index: Tensor | slice) -> Self:
        if isinstance(index, slice) and index.step in (None, 1):
            taken = self._samples[index]
            return type(self)(self._calls, self._scale, taken, self._table)
        return type(self)(self._taken(index), self._scale)

    def _taken(self, index: Tensor | slice) -> list[LayerCall]:
        """Return the calls of some of these samples."""
        own = slice(self._samples.start, self._samples.stop)
        return [call.take(own).take(index) for call in self._calls]


def _table_of(calls: list[LayerCall]) -> _Table:
    maps: list[LinearMap] = []
    owners: list[_Owner] = []
    for call in calls:
        unit = next(iter(call.targets.values())).unit
        for suffix, own in call.linear_maps().items():
            maps.append(own)
            owners.append(_Owner(call, unit, suffix))
    return _Table(backend_of(maps[0].inputs).join(maps), owners)


def together(parts: Iterable[CallGradients], scale: float) -> list[CallGradients]:
    """Return the parts, those among them that are linear maps as one."""
    others: list[CallGradients] = []
    calls: list[LayerCall] = []
    for part in parts:
        if isinstance(part, SingleCall) and part.call.linear_maps():
            calls.append(part.call)
        else:
            others.append(part)
    return [LinearCalls(calls, scale), *others] if calls else others


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

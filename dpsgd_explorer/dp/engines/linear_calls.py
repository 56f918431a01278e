"""Linear maps of a model's layers, whose gradients are computed and summed together.

A piece of the batch holds few samples, and each layer in it is little work: for a
vision transformer of 192 features, as long as the calls from Python that ask for it.
Here the maps of all layers are one table, built once in a pass, and a piece takes one
call of the backend for gradients and norms, and one for the weighted sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Self

from torch import Tensor

from dpsgd_explorer.dp.backends import backend_of
from dpsgd_explorer.dp.backends.linear import JoinedGradients, JoinedMaps, LinearMap
from dpsgd_explorer.dp.engines.base import GradientSums, NormTerm
from dpsgd_explorer.dp.engines.call_groups import (
    CallGradients,
    SingleCall,
    summed_gradients,
)
from dpsgd_explorer.dp.engines.layer_calls import LayerCall, ParameterKey


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

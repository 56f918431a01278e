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
    """The layer call of a map.

    Attributes:
        call: The call.
        unit: Clipping unit of its parameters.
        suffix: Suffix of the names of the map's parameters.
    """

    call: LayerCall
    unit: str
    suffix: str

    def totals(self, sums: GradientSums) -> list[Tensor]:
        """Returns the sum of the map's weight, and of its bias if that is trained."""
        targets = self.call.trained.targets
        names = f"weight{self.suffix}", f"bias{self.suffix}"
        return [targets[name].of(sums) for name in names if name in targets]


class _Table(NamedTuple):
    """The maps of some calls as one table.

    Attributes:
        maps: The table.
        owners: Owner of each map.
    """

    maps: JoinedMaps
    owners: list[_Owner]


class LinearCalls(CallGradients):
    """Some samples of calls that are linear maps and share no parameters.

    Args:
        calls: The calls, with all samples.
        scale: See ``CallGradients``.
        samples: Indices of the samples; None means all samples.
        table: The maps of the calls; None builds the table.
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
        self._gradients: JoinedGradients | None = None

    def __len__(self) -> int:
        return len(self._samples)

    def norm_terms(self) -> list[NormTerm]:
        self._gradients = self._table.maps.products(self._samples)
        norms = self._gradients.squared_norms.unbind(0)
        units = [owner.unit for owner in self._table.owners]
        return self._scaled_terms(list(zip(units, norms, strict=True)))

    def whole_gradients(self) -> dict[ParameterKey, Tensor]:
        return summed_gradients(self._taken(slice(None)))

    def add_weighted(self, weights: Mapping[str, Tensor], sums: GradientSums) -> None:
        gradients = self._gradients or self._table.maps.products(self._samples)
        scaled, owners = self._scaled(weights, sums), self._table.owners
        gradients.add_weighted(
            [scaled[owner.unit] for owner in owners],
            [owner.totals(sums) for owner in owners],
        )

    def take(self, index: Tensor | slice) -> Self:
        if isinstance(index, slice) and index.step in (None, 1):
            samples = self._samples[index]
            return type(self)(self._calls, self._scale, samples, self._table)
        return type(self)(self._taken(index), self._scale)

    def _taken(self, index: Tensor | slice) -> list[LayerCall]:
        """Returns the calls of some of these samples."""
        samples = slice(self._samples.start, self._samples.stop)
        return [call.take(samples).take(index) for call in self._calls]


def _table_of(calls: list[LayerCall]) -> _Table:
    maps: list[LinearMap] = []
    owners: list[_Owner] = []
    for call in calls:
        (unit,) = call.trained.units
        for suffix, linear_map in call.linear_maps().items():
            maps.append(linear_map)
            owners.append(_Owner(call, unit, suffix))
    return _Table(backend_of(maps[0].inputs).join(maps), owners)


class _TargetRows(NamedTuple):
    """Per-sample gradients and their target.

    Attributes:
        target: Target of the gradients.
        rows: [B, *shape], contiguous.
    """

    target: GradientTarget
    rows: Tensor


class DeviceCalls(CallGradients):
    """Some samples of parts whose gradients are instantiated and stored.

    Args:
        parts: The parts.
        scale: See ``CallGradients``.
    """

    def __init__(self, parts: list[CallGradients], scale: float = 1.0) -> None:
        calls: list[LayerCall] = [call for part in parts for call in part._calls]
        super().__init__(calls, scale)
        self._parts = parts
        self._gradients: list[_TargetRows] = []

    def norm_terms(self) -> list[NormTerm]:
        self._gradients = self._computed()
        rows = [gradient.rows for gradient in self._gradients]
        norms = backend_of(rows[0]).squared_norms(rows)
        units = tuple([gradient.target.unit for gradient in self._gradients])
        distinct = list(dict.fromkeys(units))
        if len(distinct) < len(units):
            norms = (_sums_by_unit(units, norms.device) @ norms.double()).float()
        return self._scaled_terms(list(zip(distinct, norms.unbind(0), strict=True)))

    def whole_gradients(self) -> dict[ParameterKey, Tensor]:
        return {
            key: gradient
            for part in self._parts
            for key, gradient in part.whole_gradients().items()
        }

    def add_weighted(self, weights: Mapping[str, Tensor], sums: GradientSums) -> None:
        gradients = self._gradients or self._computed()
        scaled = self._scaled(weights, sums)
        backend_of(gradients[0].rows).add_weighted(
            [gradient.rows for gradient in gradients],
            [scaled[gradient.target.unit] for gradient in gradients],
            [gradient.target.of(sums) for gradient in gradients],
        )

    def take(self, index: Tensor | slice) -> Self:
        return type(self)([part.take(index) for part in self._parts], self._scale)

    def _computed(self) -> list[_TargetRows]:
        return [
            _TargetRows(target, gradient.contiguous())
            for part in self._parts
            for target, gradient in part.targeted_gradients()
        ]


def joined(parts: Iterable[CallGradients], scale: float) -> list[CallGradients]:
    """Returns the parts, with one part in place of all parts that can be joined."""
    linear: list[LayerCall] = []
    on_device: list[CallGradients] = []
    result: list[CallGradients] = []
    for part in parts:
        if isinstance(part, SingleCall) and part.call.linear_maps():
            linear.append(part.call)
        elif isinstance(part, SingleCall | SharedCalls) and part.joins_layers():
            on_device.append(part)
        else:
            result.append(part)
    if linear:
        result.insert(0, LinearCalls(linear, scale))
    if on_device:
        result.insert(0, DeviceCalls(on_device, scale))
    return result


@lru_cache(maxsize=64)
def _sums_by_unit(units: tuple[str, ...], device: torch.device) -> Tensor:
    """Returns the matrix that adds the rows of each unit, [units, n]."""
    distinct = {unit: row for row, unit in enumerate(dict.fromkeys(units))}
    matrix = torch.zeros(len(distinct), len(units), dtype=torch.float64)
    for column, unit in enumerate(units):
        matrix[distinct[unit], column] = 1.0
    return matrix.to(device)

"""Linear maps of a model's layers, whose gradients are made and summed together.

A piece of the batch holds few samples, and each layer in it is little work: for a
vision transformer of 192 features, as long as the calls from Python that ask for it.
Here the maps of all layers are one table, made once in a pass, and a piece takes one
compiled call for gradients and norms, and one for the weighted sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Self

from torch import Tensor

from dpsgd_explorer.dp.backends import backend_of
from dpsgd_explorer.dp.backends.linear import JoinedGradients, JoinedMaps, LinearMap
from dpsgd_explorer.dp.engines.base import GradientSums
from dpsgd_explorer.dp.engines.call_groups import LayerCallGroup, SingleLayerCall
from dpsgd_explorer.dp.engines.layer_calls import ParameterKey


class _Place(NamedTuple):
    """Whose a map is.

    Attributes:
        call: Its layer's call.
        unit: What the call's parameters belong to.
        suffix: Of the map's parameters' names.
    """

    call: SingleLayerCall
    unit: str
    suffix: str


class LinearCalls:
    """Some samples of calls that are linear maps, each the only one of its parameters.

    Args:
        calls: The calls, of all samples.
        samples: Which of the samples; all if None.
        table: Their maps, if they are known.
    """

    def __init__(
        self,
        calls: list[SingleLayerCall],
        samples: range | None = None,
        table: tuple[JoinedMaps, list[_Place]] | None = None,
    ) -> None:
        self._calls = calls
        if table is None:
            table = _table(calls, [call.linear_maps() for call in calls])
        self._maps, self._places = table
        self._samples = range(self._maps.batch_size) if samples is None else samples
        self._made: JoinedGradients | None = None

    def squared_norms(self) -> list[tuple[str, Tensor]]:
        self._made = self._maps.products(self._samples)
        norms = self._made.squared_norms.unbind(0)
        units = [place.unit for place in self._places]
        return list(zip(units, norms, strict=True))

    def single_position(self) -> None:
        """Return None: norms are made with the gradients."""

    def materialize(self) -> dict[ParameterKey, Tensor]:
        every = (call.materialize() for call in self._taken(slice(None)))
        return {key: gradient for own in every for key, gradient in own.items()}

    def add_weighted(self, weights: Mapping[str, Tensor], sums: GradientSums) -> None:
        made = self._made or self._maps.products(self._samples)
        made.add_weighted(
            [weights[place.unit] for place in self._places],
            [place.call.totals_of(place.suffix, sums) for place in self._places],
        )

    def take(self, index: Tensor | slice) -> Self:
        if isinstance(index, slice) and index.step in (None, 1):
            table = self._maps, self._places
            return type(self)(self._calls, self._samples[index], table)
        return type(self)(self._taken(index))

    def _taken(self, index: Tensor | slice) -> list[SingleLayerCall]:
        """Return the calls of some of these samples."""
        own = slice(self._samples.start, self._samples.stop)
        return [call.take(own).take(index) for call in self._calls]

    def gradient_bytes(self) -> int:
        return sum(call.gradient_bytes() for call in self._calls)

    def keys(self) -> frozenset[ParameterKey]:
        return frozenset().union(*(call.keys() for call in self._calls))


def _table(
    calls: list[SingleLayerCall], maps: list[Mapping[str, LinearMap]]
) -> tuple[JoinedMaps, list[_Place]]:
    """Return the maps of some calls as a table, and whose they are."""
    every = list(zip(calls, maps, strict=True))
    places = [_Place(call, call.unit, name) for call, own in every for name in own]
    joined = [found for own in maps for found in own.values()]
    return backend_of(joined[0].inputs).join(joined), places


def together(groups: Iterable[LayerCallGroup]) -> list[LayerCallGroup]:
    """Return the groups, those among them that are linear maps as one."""
    others: list[LayerCallGroup] = []
    calls: list[SingleLayerCall] = []
    maps: list[Mapping[str, LinearMap]] = []
    for group in groups:
        if isinstance(group, SingleLayerCall) and (found := group.linear_maps()):
            calls.append(group)
            maps.append(found)
        else:
            others.append(group)
    return [LinearCalls(calls, table=_table(calls, maps)), *others] if calls else others

"""Linear layers of a model, whose gradients are made together and summed together.

A piece of the batch holds few samples, and each layer in it is little work: for a
vision transformer of 192 features, as long as the calls from Python that ask for it.
Here the layers are one table, made once in a pass, and a piece takes one compiled call
for gradients and norms, and one for the weighted sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Self

from torch import Tensor

from dpsgd_explorer.dp.engines.base import GradientSums
from dpsgd_explorer.dp.engines.call_groups import LayerCallGroup, SingleLayerCall
from dpsgd_explorer.dp.engines.layer_calls import ParameterKey
from dpsgd_explorer.dp.kernels.linear_products import (
    LinearMap,
    LinearMaps,
    MadeProducts,
)
from dpsgd_explorer.dp.layers.linear_gradients import LONGER


class LinearCalls:
    """Some samples of linear layers' calls, each the only one of its parameters.

    Args:
        calls: The calls, of all samples.
        units: What each of them belongs to.
        maps: The same, as a table.
        samples: Which of the samples.
    """

    def __init__(
        self,
        calls: Sequence[SingleLayerCall],
        units: Sequence[str],
        maps: LinearMaps,
        samples: range,
    ) -> None:
        self._calls, self._units, self._maps = calls, units, maps
        self._samples = samples
        self._made: MadeProducts | None = None

    def squared_norms(self) -> list[tuple[str, Tensor]]:
        self._made = self._maps.products(self._samples, longer=LONGER)
        return list(zip(self._units, self._made.squared_norms.unbind(0), strict=True))

    def single_position(self) -> None:
        """Return None: norms are made with the gradients."""

    def materialize(self) -> dict[ParameterKey, Tensor]:
        every = (call.materialize() for call in self._taken(slice(None)))
        return {key: gradient for own in every for key, gradient in own.items()}

    def add_weighted(self, weights: Mapping[str, Tensor], sums: GradientSums) -> None:
        made = self._made or self._maps.products(self._samples)
        of_each = [weights[unit] for unit in self._units]
        made.add_weighted(of_each, [call.weight_and_bias(sums) for call in self._calls])

    def take(self, index: Tensor | slice) -> Self:
        if isinstance(index, slice) and index.step in (None, 1):
            samples = self._samples[index]
            return type(self)(self._calls, self._units, self._maps, samples)
        calls = self._taken(index)
        maps = [found for call in calls if (found := call.linear_map()) is not None]
        samples = range(len(maps[0].inputs))
        return type(self)(calls, self._units, LinearMaps(maps), samples)

    def _taken(self, index: Tensor | slice) -> list[SingleLayerCall]:
        """Return the calls of some of these samples."""
        own = slice(self._samples.start, self._samples.stop)
        return [call.take(own).take(index) for call in self._calls]

    def gradient_bytes(self) -> int:
        return sum(call.gradient_bytes() for call in self._calls)

    def keys(self) -> frozenset[ParameterKey]:
        return frozenset().union(*(call.keys() for call in self._calls))


def together(groups: Iterable[LayerCallGroup]) -> list[LayerCallGroup]:
    """Return the groups, the linear ones among them as one."""
    others: list[LayerCallGroup] = []
    calls: list[SingleLayerCall] = []
    maps: list[LinearMap] = []
    for group in groups:
        found = group.linear_map() if isinstance(group, SingleLayerCall) else None
        if found is None or not isinstance(group, SingleLayerCall):
            others.append(group)
            continue
        calls.append(group)
        maps.append(found)
    if not maps:
        return others
    units, samples = [call.unit for call in calls], range(len(maps[0].inputs))
    return [LinearCalls(calls, units, LinearMaps(maps), samples), *others]

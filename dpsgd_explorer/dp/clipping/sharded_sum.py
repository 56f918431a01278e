"""The sum of clipped gradients of which each rank stores its own rows alone (FSDP2).

When backward ends, the layers' sums are made one after the other: whole on this rank,
added up over the ranks, cut to this rank's rows, freed.  The peak is that of the
largest layer, not of the model.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from dpsgd_explorer.dp.backends.precision import accumulation_dtype
from dpsgd_explorer.dp.clipping.clipped_sum import ClippedSum, Factors, allocate
from dpsgd_explorer.dp.distributed.ranks import ALONE
from dpsgd_explorer.dp.distributed.sharding import local, rows_of
from dpsgd_explorer.dp.engines.base import (
    ParameterKey,
    PerSampleGradients,
    added_by_unit,
)


class ShardedSum(ClippedSum):
    """Sums clipped gradients over samples and ranks; see ClippedSum.

    Each part of a batch is added up over the ranks at once, so all ranks must add the
    same number of parts.

    Attributes:
        sums: {layer: {local name: this rank's rows of the sum}}.
    """

    def _allocate(self) -> Iterator[Tensor]:
        self._flats, self.sums, _ = allocate(self._parameters, _rows_shape, ALONE)
        return iter(self._flats)

    def _add(self, samples: PerSampleGradients) -> None:
        layers = _Layers(samples, self._parameters)
        finite, factors = self._clip(
            layers.squared_norms(), leaves_out=samples.leaves_out
        )
        if finite is not None:
            layers = _Layers(samples.take(finite), self._parameters)
        # The same order on every rank, also of layers that no sample has used.
        for unit, own in self._parameters.items():
            whole = layers.weighted(unit, factors)
            for name, rows in zip(own, self._scatter([*whole.values()]), strict=True):
                self.sums[unit][name].add_(rows.view_as(self.sums[unit][name]))

    def _scatter(self, whole: list[Tensor]) -> list[Tensor]:
        """Return this rank's rows of the sums over the ranks of whole tensors."""
        size, rank = self.ranks.size, self.ranks.rank
        blocks = [_blocks(tensor, size) for tensor in whole]
        flat = torch.cat(blocks, dim=1).flatten()
        self.ranks.add_up(flat)
        widths = [block.shape[1] for block in blocks]
        own = torch.split(flat.chunk(size)[rank], widths)
        return [
            rows[: rows_of(tensor, rank, size).numel()]
            for rows, tensor in zip(own, whole, strict=True)
        ]

    def _add_up(self) -> None:
        """Do nothing: each part of the batch was added up."""

    def _gather(self) -> None:
        """Do nothing: each rank's optimizer moves its own rows."""

    def _gradient(self, parameter: nn.Parameter, released: Tensor) -> Tensor:
        spread: Any = parameter
        return DTensor.from_local(
            super()._gradient(parameter, released),
            spread.device_mesh,
            spread.placements,
            run_check=False,
            shape=parameter.shape,
            stride=parameter.stride(),
        )


class _Layers:
    """The gradients of a batch by layer, and the weighted sum of one after the other.

    Args:
        samples: Gradients of all layers.
        parameters: {layer: {local name: parameter}}.
    """

    def __init__(self, samples: PerSampleGradients, parameters: Any) -> None:
        self._parameters = parameters
        every = [(unit, name) for unit, own in parameters.items() for name in own]
        self._waiting = [
            (keys, _pieces(part)) for keys, part in samples.by_parameters(every)
        ]
        self._sums: dict[ParameterKey, Tensor] = {}

    def squared_norms(self) -> Factors:
        """Return {layer: squared norms, [B]}."""
        return added_by_unit(
            norms for _, pieces in self._waiting for norms in _joined_norms(pieces)
        )

    def weighted(self, unit: str, factors: Factors) -> dict[str, Tensor]:
        """Return {local name: weighted sum of this rank} of a layer, and forget it.

        Args:
            unit: Name of the layer.
            factors: {layer: factors [B]}.
        """
        own = [(unit, name) for name in self._parameters[unit]]
        for keys, pieces in self._waiting:
            if not keys.isdisjoint(own):
                self._add(keys, pieces, factors)
        self._waiting = [w for w in self._waiting if w[0].isdisjoint(own)]
        return {
            key[1]: self._sums.pop(key) if key in self._sums else self._zeros(key)
            for key in own
        }

    def _add(
        self,
        keys: frozenset[ParameterKey],
        pieces: list[PerSampleGradients],
        factors: Factors,
    ) -> None:
        sums: dict[str, dict[str, Tensor]] = {}
        for key in keys:
            if key not in self._sums:
                self._sums[key] = self._zeros(key)
            sums.setdefault(key[0], {})[key[1]] = self._sums[key]
        start = 0
        for piece in pieces:
            rows = slice(start, start := start + len(piece))
            cut = {id(f): f[rows] for f in factors.values()}  # one for a whole group
            weights = {unit: cut[id(f)] for unit, f in factors.items() if unit in sums}
            piece.add_weighted(weights, sums)

    def _zeros(self, key: ParameterKey) -> Tensor:
        parameter = self._parameters[key[0]][key[1]]
        dtype = accumulation_dtype(parameter.dtype)
        return torch.zeros(parameter.shape, dtype=dtype, device=parameter.device)


def _pieces(part: PerSampleGradients) -> list[PerSampleGradients]:
    """Return the samples in pieces whose gradients fit in memory, if it can be."""
    whole, pieces = part.split()
    return [part] if whole is not None else list(pieces)


def _joined_norms(pieces: list[PerSampleGradients]) -> list[tuple[str, Tensor]]:
    """Return (layer, squared norms [B]) of all pieces together."""
    norms = [piece.squared_norms() for piece in pieces]
    return [(unit, torch.cat([own[unit] for own in norms])) for unit in norms[0]]


def _rows_shape(parameter: nn.Parameter) -> torch.Size:
    return local(parameter).shape


def _blocks(tensor: Tensor, size: int) -> Tensor:
    """Return the rows of each rank, padded with zeros to one length: [W, entries]."""
    flat = tensor.flatten()
    block = -(-len(tensor) // size) * tensor[:1].numel()
    return F.pad(flat, (0, size * block - len(flat))).view(size, block)

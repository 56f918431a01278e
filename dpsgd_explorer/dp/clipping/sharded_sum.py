"""Sums clipped gradients of a sharded model; each rank stores its rows (FSDP2).

When backward ends, the sums of the layers are computed one after the other: the whole
sum on this rank is added over the ranks, cut to this rank's rows, and freed.  The peak
of memory is the sum of the largest layer, not of the model.
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

    Each part of a batch is added over the ranks immediately, so all ranks must add the
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
        # All ranks use one order, and include layers that no sample has used.
        for unit, names in self._parameters.items():
            whole = layers.weighted(unit, factors)
            for name, rows in zip(names, self._scatter([*whole.values()]), strict=True):
                self.sums[unit][name].add_(rows.view_as(self.sums[unit][name]))

    def _scatter(self, whole: list[Tensor]) -> list[Tensor]:
        """Returns this rank's rows of tensors that are summed over the ranks."""
        size, rank = self.ranks.size, self.ranks.rank
        blocks = [_blocks(tensor, size) for tensor in whole]
        flat = torch.cat(blocks, dim=1).flatten()
        self.ranks.add_up(flat)
        widths = [block.shape[1] for block in blocks]
        own_blocks = torch.split(flat.chunk(size)[rank], widths)
        return [
            rows[: rows_of(tensor, rank, size).numel()]
            for rows, tensor in zip(own_blocks, whole, strict=True)
        ]

    def _add_up(self) -> None:
        """Does nothing, because each part of the batch was added over the ranks."""

    def _gather(self) -> None:
        """Does nothing, because the optimizer of each rank moves this rank's rows."""

    def _gradient(self, parameter: nn.Parameter, released: Tensor) -> Tensor:
        sharded: Any = parameter
        return DTensor.from_local(
            super()._gradient(parameter, released),
            sharded.device_mesh,
            sharded.placements,
            run_check=False,
            shape=parameter.shape,
            stride=parameter.stride(),
        )


class _Layers:
    """The gradients of a batch, whose weighted sums are computed layer by layer.

    Args:
        samples: Gradients of all layers.
        parameters: {layer: {local name: parameter}}.
    """

    def __init__(self, samples: PerSampleGradients, parameters: Any) -> None:
        self._parameters = parameters
        all_keys = [
            (unit, name) for unit, names in parameters.items() for name in names
        ]
        self._waiting = [
            (keys, _chunks(part)) for keys, part in samples.by_parameters(all_keys)
        ]
        self._sums: dict[ParameterKey, Tensor] = {}

    def squared_norms(self) -> Factors:
        """Returns {layer: squared norms, [B]}."""
        return added_by_unit(
            norms for _, chunks in self._waiting for norms in _joined_norms(chunks)
        )

    def weighted(self, unit: str, factors: Factors) -> dict[str, Tensor]:
        """Returns {local name: weighted sum of this rank} of a layer, and frees it.

        Args:
            unit: Name of the layer.
            factors: {layer: factors [B]}.
        """
        unit_keys = [(unit, name) for name in self._parameters[unit]]
        for keys, chunks in self._waiting:
            if not keys.isdisjoint(unit_keys):
                self._add(keys, chunks, factors)
        self._waiting = [w for w in self._waiting if w[0].isdisjoint(unit_keys)]
        return {
            key[1]: self._sums.pop(key) if key in self._sums else self._zeros(key)
            for key in unit_keys
        }

    def _add(
        self,
        keys: frozenset[ParameterKey],
        chunks: list[PerSampleGradients],
        factors: Factors,
    ) -> None:
        sums: dict[str, dict[str, Tensor]] = {}
        for key in keys:
            if key not in self._sums:
                self._sums[key] = self._zeros(key)
            sums.setdefault(key[0], {})[key[1]] = self._sums[key]
        start = 0
        for chunk in chunks:
            rows = slice(start, start := start + len(chunk))
            cut = {id(f): f[rows] for f in factors.values()}  # one tensor per group
            weights = {unit: cut[id(f)] for unit, f in factors.items() if unit in sums}
            chunk.add_weighted(weights, sums)

    def _zeros(self, key: ParameterKey) -> Tensor:
        parameter = self._parameters[key[0]][key[1]]
        dtype = accumulation_dtype(parameter.dtype)
        return torch.zeros(parameter.shape, dtype=dtype, device=parameter.device)


def _chunks(part: PerSampleGradients) -> list[PerSampleGradients]:
    """Returns the samples in chunks; a part with whole parameters is one chunk."""
    whole, chunks = part.split()
    return [part] if whole is not None else list(chunks)


def _joined_norms(chunks: list[PerSampleGradients]) -> list[tuple[str, Tensor]]:
    """Returns (layer, squared norms [B]) of all chunks together."""
    norms = [chunk.squared_norms() for chunk in chunks]
    return [(unit, torch.cat([n[unit] for n in norms])) for unit in norms[0]]


def _rows_shape(parameter: nn.Parameter) -> torch.Size:
    return local(parameter).shape


def _blocks(tensor: Tensor, size: int) -> Tensor:
    """Returns the rows of each rank, padded with zeros to one size: [W, entries]."""
    flat = tensor.flatten()
    block = -(-len(tensor) // size) * tensor[:1].numel()
    return F.pad(flat, (0, size * block - len(flat))).view(size, block)

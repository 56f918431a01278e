"""Compares and sums the gradients of a few samples, a few parameters at a time.

The peak of memory is the gradient of the largest layer and not of the whole model, for
which a rank of a sharded model has no room.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from dpsgd_explorer.dp.backends.full_precision import full_precision
from dpsgd_explorer.dp.backends.precision import accumulation_dtype
from dpsgd_explorer.dp.engines.base import (
    ParameterKey,
    PerSampleGradients,
    full_name,
)
from dpsgd_explorer.errors import UnsupportedModuleError

#: Number of entries per comparison, which bounds the memory of differences to 4 MiB.
COMPARED_ENTRIES = 2**20

#: {name of a unit or parameter: values, for example with a row per sample}.
Rows = dict[str, Tensor]
#: {unit: {local name: parameter}}.
Parameters = Mapping[str, Mapping[str, nn.Parameter]]
#: The gradients of all samples of a pass, in one or more parts.
Samples = list[PerSampleGradients]


class NotFiniteError(UnsupportedModuleError):
    """A module's gradients are not finite on random inputs."""

    def __init__(self) -> None:
        super().__init__(
            "the module's gradients must be finite on standard normal inputs, so that "
            "its samples can be compared; they are not. Scale the inputs inside the "
            "module, or start from other parameters."
        )


def chosen(samples: Samples, rows: range) -> Samples:
    """Returns the gradients of some samples of a pass, by the samples' indices."""
    parts, start = [], 0
    for part in samples:
        indices = [i - start for i in rows if start <= i < start + len(part)]
        start += len(part)
        if indices:
            parts.append(part.take(torch.tensor(indices)))
    return parts


def weighted_parts(
    samples: Samples, weights: Mapping[str, Tensor], parameters: Parameters
) -> Iterator[Rows]:
    """Yields {name: weighted sum over the samples} for a few parameters at a time.

    Parameters that the pass has not used are left out.

    Args:
        samples: The gradients of a pass of B samples.
        weights: {unit: weights [B]}.
        parameters: {unit: {local name: parameter}} of the engine.
    """
    for keys, parts in _by_keys(samples, parameters):
        totals = _zeros(keys, parameters)
        _add(parts, weights, totals)
        yield {
            full_name(unit, name): total
            for unit, unit_totals in totals.items()
            for name, total in unit_totals.items()
        }


class MaterializedSums(NamedTuple):
    """Sums over the materialized gradients of B samples, for a few parameters.

    Attributes:
        equal: {name: sum of the gradients}.
        weighted: {name: sum of the gradients with the weights}.
        squares: {name: squared norms of the gradients, B numbers}.
    """

    equal: Rows
    weighted: Rows
    squares: dict[str, list[float]]


def materialized_sums(
    samples: Samples, parameters: Parameters, weights: Tensor
) -> Iterator[MaterializedSums]:
    """Yields sums of the materialized gradients for a few parameters at a time.

    A layer's rule has two ways to compute a sum.  This function computes the gradient
    of each sample, as canaries and some norm methods do; ``weighted_parts`` does not.

    Args:
        samples: The gradients of a pass of B samples.
        parameters: {unit: {local name: parameter}} of the engine.
        weights: [B].
    """
    for _, parts in _by_keys(samples, parameters):
        sums = MaterializedSums({}, {}, {})
        start = 0
        for part in parts:
            # One sample at a time: its gradients have the size of the model.
            for i in range(0 if part is None else len(part)):
                assert part is not None, "it has samples"
                gradients = part.take(torch.tensor([i])).materialize()
                _add_sample(gradients, start + i, weights, sums)
            start += 0 if part is None else len(part)
        yield sums


def _add_sample(
    gradients: Rows, index: int, weights: Tensor, sums: MaterializedSums
) -> None:
    for name, rows in gradients.items():
        if name not in sums.equal:
            dtype = accumulation_dtype(rows.dtype)
            sums.equal[name] = torch.zeros_like(rows[0], dtype=dtype)
            sums.weighted[name] = torch.zeros_like(sums.equal[name])
            sums.squares[name] = [0.0] * len(weights)
        sums.equal[name].add_(rows[0])
        sums.weighted[name].add_(rows[0], alpha=float(weights[index]))
        norm = torch.linalg.vector_norm(rows[0], dtype=torch.float64)
        sums.squares[name][index] += float(norm) ** 2


def differences(
    first: Samples, second: Samples, parameters: Parameters
) -> Iterator[tuple[float, float]]:
    """Compares the gradients of a sample in two passes, a few parameters at a time.

    If a pass has not used a layer, the gradients of the layer are 0 in that pass.

    Args:
        first: Gradients of a sample in a pass.
        second: Gradients of the sample in another pass.
        parameters: {unit: {local name: parameter}} of the engine.

    Yields:
        (largest entry of the first gradients, largest entry of the difference).

    Raises:
        NotFiniteError: a gradient is not finite.
    """
    weights = dict.fromkeys(parameters, torch.ones(1))
    opposite = dict.fromkeys(parameters, -torch.ones(1))
    for keys, parts in _by_keys(first + second, parameters):
        totals = _zeros(keys, parameters)
        _add(parts[: len(first)], weights, totals)
        largest = _largest(totals)
        _add(parts[len(first) :], opposite, totals)
        yield largest, _largest(totals)


def squared_norms_of(samples: PerSampleGradients) -> Rows:
    """Returns {unit: squared norms [B]}, with gradients of a few samples at a time.

    The norms are computed as in a step, but no gradients are stored for a later sum.
    """
    with full_precision():
        whole, pieces = samples.split()
        squared = joined(piece.squared_norms() for piece in pieces)
        for unit, norms in ({} if whole is None else whole.squared_norms()).items():
            squared[unit] = squared[unit] + norms if unit in squared else norms
    return squared


def largest_difference(first: Tensor, second: Tensor) -> float:
    """Returns the largest absolute difference of two tensors, or NaN."""
    pairs = zip(
        torch.split(first.flatten(), COMPARED_ENTRIES),
        torch.split(second.flatten(), COMPARED_ENTRIES),
        strict=True,
    )
    entries = [largest_entry(a - b.to(a.dtype)) for a, b in pairs]
    return math.nan if any(map(math.isnan, entries)) else max(entries, default=0.0)


def largest_entry(values: Tensor) -> float:
    """Returns the largest absolute entry, or NaN, in one pass over the values."""
    if not values.numel():
        return 0.0
    least, most = torch.aminmax(values)
    return float(torch.maximum(-least, most))


def _by_keys(
    samples: Samples, parameters: Parameters
) -> Iterator[tuple[frozenset[ParameterKey], list[PerSampleGradients | None]]]:
    """Yields the keys of a few parameters, and their gradients in each part.

    The gradients are None in a part that has not used the parameters.
    """
    all_keys = [(unit, name) for unit, names in parameters.items() for name in names]
    parts = [dict(part.by_parameters(all_keys)) for part in samples]
    groups = list(dict.fromkeys(keys for part in parts for keys in part))
    if sum(map(len, groups)) > len(frozenset().union(*groups)):
        # The parts group the parameters differently, so all parameters are one group.
        yield frozenset(all_keys), [*samples]
        return
    for keys in groups:
        yield keys, [part.get(keys) for part in parts]


def _zeros(keys: frozenset[ParameterKey], parameters: Parameters) -> dict[str, Rows]:
    totals: dict[str, Rows] = {}
    for unit, name in keys:
        p = parameters[unit][name]
        totals.setdefault(unit, {})[name] = torch.zeros(
            p.shape, dtype=accumulation_dtype(p.dtype), device=p.device
        )
    return totals


def _add(
    parts: Iterable[PerSampleGradients | None],
    weights: Mapping[str, Tensor],
    totals: dict[str, Rows],
) -> None:
    start = 0
    for part in parts:
        if part is not None:
            whole, pieces = part.split()
            if whole is not None:
                _add_piece(whole, start, weights, totals)
            for piece in pieces:
                start = _add_piece(piece, start, weights, totals)


def _add_piece(
    piece: PerSampleGradients,
    start: int,
    weights: Mapping[str, Tensor],
    totals: dict[str, Rows],
) -> int:
    """Adds consecutive samples, and returns the index of the sample after them."""
    stop = start + len(piece)
    cut = {
        unit: weights[unit][start:stop].to(next(iter(unit_totals.values())))
        for unit, unit_totals in totals.items()
        if unit in weights
    }
    with full_precision():
        piece.add_weighted(cut, totals)
    return stop


def _largest(totals: dict[str, Rows]) -> float:
    entries = [largest_entry(t) for unit in totals.values() for t in unit.values()]
    if not math.isfinite(sum(entries)):
        raise NotFiniteError
    return max(entries, default=0.0)


def joined(parts: Iterable[Rows]) -> Rows:
    """Returns {name: rows of all parts}."""
    all_parts = list(parts)
    if len(all_parts) == 1:
        return all_parts[0]
    return {name: torch.cat([p[name] for p in all_parts]) for name in all_parts[0]}

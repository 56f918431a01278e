"""The gradients of a few samples, some parameters at a time.

The gradients of all parameters need not exist at once: the peak is that of the largest
layer, which is all that a rank of a sharded model has room for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

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

#: Entries that are compared at once: their differences take 4 MiB.
COMPARED_ENTRIES = 2**20

Rows = dict[str, Tensor]
Parameters = Mapping[str, Mapping[str, nn.Parameter]]
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
    """Return the gradients of consecutive samples of a pass."""
    found, start = [], 0
    for part in samples:
        own = [i - start for i in rows if start <= i < start + len(part)]
        start += len(part)
        if own:
            found.append(part.take(torch.tensor(own)))
    return found


def weighted_parts(
    samples: Samples, weights: Mapping[str, Tensor], parameters: Parameters
) -> Iterator[Rows]:
    """Yield {name: weighted sum over the samples} of some parameters at a time.

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
            for unit, own in totals.items()
            for name, total in own.items()
        }


def summed_rows(samples: Samples, parameters: Parameters) -> Iterator[Rows]:
    """Yield {name: sum of the materialized gradients} of some parameters at a time.

    A layer's rule has a second path to weighted sums; this one makes each sample's
    gradient, as canaries and other norm methods do.

    Args:
        samples: The gradients of a pass.
        parameters: {unit: {local name: parameter}} of the engine.
    """
    for _, parts in _by_keys(samples, parameters):
        totals: Rows = {}
        for part in parts:
            for i in range(0 if part is None else len(part)):
                assert part is not None, "it has samples"
                # One after the other: a sample's gradients are as large as the model.
                for name, rows in part.take(torch.tensor([i])).materialize().items():
                    if name not in totals:
                        dtype = accumulation_dtype(rows.dtype)
                        totals[name] = torch.zeros_like(rows[0], dtype=dtype)
                    totals[name].add_(rows[0])
        yield totals


def differences(
    first: Samples, second: Samples, parameters: Parameters
) -> Iterator[tuple[float, float]]:
    """Yield (largest entry of the first, of the difference) of some parameters.

    Gradients of the same sample in two passes; those of layers that a pass has not used
    are 0.

    Args:
        first: Gradients of one sample in a pass.
        second: Gradients of the sample in another pass.
        parameters: {unit: {local name: parameter}} of the engine.

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
    """Return {unit: squared norms [B]}, with gradients of a few samples at a time.

    As in an ordinary step, and nothing is stored for a sum that does not come.
    """
    with full_precision():
        whole, pieces = samples.split()
        squared = joined(piece.squared_norms() for piece in pieces)
        for unit, norms in ({} if whole is None else whole.squared_norms()).items():
            squared[unit] = squared[unit] + norms if unit in squared else norms
    return squared


def largest_difference(first: Tensor, second: Tensor) -> float:
    """Return the largest absolute difference of two tensors, or NaN."""
    pairs = zip(
        torch.split(first.flatten(), COMPARED_ENTRIES),
        torch.split(second.flatten(), COMPARED_ENTRIES),
        strict=True,
    )
    found = [largest_entry(a - b.to(a.dtype)) for a, b in pairs]
    return math.nan if any(map(math.isnan, found)) else max(found, default=0.0)


def largest_entry(values: Tensor) -> float:
    """Return the largest absolute entry, or NaN, in one pass over the values."""
    if not values.numel():
        return 0.0
    least, most = torch.aminmax(values)
    return float(torch.maximum(-least, most))


def _by_keys(
    samples: Samples, parameters: Parameters
) -> Iterator[tuple[frozenset[ParameterKey], list[PerSampleGradients | None]]]:
    """Yield some parameters, and their gradients in each part; None where unused."""
    every = [(unit, name) for unit, own in parameters.items() for name in own]
    parts = [dict(part.by_parameters(every)) for part in samples]
    groups = list(dict.fromkeys(keys for part in parts for keys in part))
    if sum(map(len, groups)) > len(frozenset().union(*groups)):
        # A parameter is shared with others in one part and alone in another.
        yield frozenset(every), [*samples]
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
            rows = slice(start, start := start + len(part))
            cut = {
                unit: weights[unit][rows].to(next(iter(own.values())))
                for unit, own in totals.items()
                if unit in weights
            }
            with full_precision():
                part.add_weighted(cut, totals)


def _largest(totals: dict[str, Rows]) -> float:
    entries = [largest_entry(t) for own in totals.values() for t in own.values()]
    if not math.isfinite(sum(entries)):
        raise NotFiniteError
    return max(entries, default=0.0)


def joined(parts: Iterable[Rows]) -> Rows:
    """Return {name: rows of all parts}."""
    every = list(parts)
    if len(every) == 1:
        return every[0]
    return {name: torch.cat([part[name] for part in every]) for name in every[0]}

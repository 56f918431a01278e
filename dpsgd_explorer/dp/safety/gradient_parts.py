"""The gradients of a few samples, some parameters at a time.

The gradients of all parameters need not exist at once: the peak is that of the largest
layer, which is all that a rank of a sharded model has room for.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping

import torch
from torch import Tensor, nn

from dpsgd_explorer.dp.engines.base import (
    ParameterKey,
    PerSampleGradients,
    full_name,
)
from dpsgd_explorer.dp.kernels.full_precision import full_precision
from dpsgd_explorer.dp.kernels.precision import accumulation_dtype
from dpsgd_explorer.errors import UnsupportedModuleError

#: Entries that are compared at once: their differences take 4 MiB.
COMPARED_ENTRIES = 2**20

Rows = dict[str, Tensor]
Samples = list[PerSampleGradients]


class NotFiniteError(UnsupportedModuleError):
    """A module's gradients are not finite on random inputs."""

    def __init__(self) -> None:
        super().__init__(
            "the module gives gradients that are not finite on standard normal "
            "inputs, so its samples cannot be compared. Scale its inputs, or "
            "start from other parameters."
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


def parts_of(
    *passes: Samples, parameters: dict[str, dict[str, nn.Parameter]]
) -> Iterator[list[Rows]]:
    """Yield, of each pass, {name: gradients, [B, *shape]} of some parameters at a time.

    Parameters that no pass has used are left out: their gradients are 0.

    Args:
        passes: Of each the gradients of all its samples.
        parameters: {unit: {local name: parameter}} of the engine.

    Raises:
        UnsupportedModuleError: a gradient is not finite.
    """
    parts = [_by_keys(samples, parameters) for samples in passes]
    flat = [each for samples in parts for each in samples]
    if any(each.keys() != flat[0].keys() for each in flat):
        # Other layers were used: all at once, with 0 for those that were not.
        every_name = {
            full_name(unit, name): parameter
            for unit, own in parameters.items()
            for name, parameter in own.items()
        }
        yield [_finite(_whole(samples, every_name)) for samples in passes]
        return
    for keys in flat[0]:
        yield [
            _finite(joined([each[keys].materialize() for each in samples]))
            for samples in parts
        ]


def weighted_parts(
    samples: Samples,
    weights: Mapping[str, Tensor],
    parameters: dict[str, dict[str, nn.Parameter]],
) -> Iterator[Rows]:
    """Yield {name: weighted sum over the samples} of some parameters at a time.

    Parameters that the pass has not used are left out.

    Args:
        samples: The gradients of a pass of B samples.
        weights: {unit: weights [B]}.
        parameters: {unit: {local name: parameter}} of the engine.
    """
    parts = _by_keys(samples, parameters)
    for keys in {keys: None for part in parts for keys in part}:
        totals: dict[str, Rows] = {}
        for unit, name in keys:
            p = parameters[unit][name]
            totals.setdefault(unit, {})[name] = torch.zeros(
                p.shape, dtype=accumulation_dtype(p.dtype), device=p.device
            )
        start = 0
        for whole, part in zip(samples, parts, strict=True):
            rows = slice(start, start := start + len(whole))
            if keys in part:
                cut = {
                    unit: weights[unit][rows].to(next(iter(own.values())))
                    for unit, own in totals.items()
                    if unit in weights
                }
                with full_precision():
                    part[keys].add_weighted_gradients(cut, totals)
        yield {
            full_name(unit, name): total
            for unit, own in totals.items()
            for name, total in own.items()
        }


def squared_norms_of(samples: PerSampleGradients) -> Rows:
    """Return {unit: squared norms [B]}, with gradients of a few samples at a time.

    As in an ordinary step, and nothing is stored for a sum that does not come.
    """
    with full_precision():
        whole, pieces = samples.split_by_memory()
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
    samples: Samples, parameters: dict[str, dict[str, nn.Parameter]]
) -> list[dict[frozenset[ParameterKey], PerSampleGradients]]:
    every: Collection[ParameterKey] = [
        (unit, name) for unit, own in parameters.items() for name in own
    ]
    return [dict(part.by_parameters(every)) for part in samples]


def _whole(samples: Samples, parameters: dict[str, nn.Parameter]) -> Rows:
    gradients = joined([each.materialize() for each in samples])
    size = sum(len(each) for each in samples)
    return {
        name: gradients[name]
        if name in gradients
        else torch.zeros(size, *p.shape, dtype=p.dtype, device=p.device)
        for name, p in parameters.items()
    }


def joined(parts: Iterable[Rows]) -> Rows:
    """Return {name: rows of all parts}."""
    every = list(parts)
    if len(every) == 1:
        return every[0]
    return {name: torch.cat([part[name] for part in every]) for name in every[0]}


def _finite(rows: Rows) -> Rows:
    if not math.isfinite(sum(map(largest_entry, rows.values()))):
        raise NotFiniteError
    return rows

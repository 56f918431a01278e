"""The gradients of a few samples, some parameters at a time.

The gradients of all parameters need not exist at once: the peak is that of the largest
layer, which is all that a rank of a sharded model has room for.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator

import torch
from torch import Tensor, nn

from dpsgd_explorer.dp.engines.base import (
    ParameterKey,
    PerSampleGradients,
    full_name,
)
from dpsgd_explorer.errors import UnsupportedModuleError

Rows = dict[str, Tensor]
Samples = list[PerSampleGradients]


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
    every = [(unit, name) for unit, own in parameters.items() for name in own]
    parts = [[_merged(each, every) for each in samples] for samples in passes]
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
            _finite(_joined([each[keys].materialize() for each in samples]))
            for samples in parts
        ]


def largest_entry(values: Tensor) -> float:
    """Return the largest absolute entry, or NaN, in one pass over the values."""
    if not values.numel():
        return 0.0
    least, most = torch.aminmax(values)
    return float(torch.maximum(-least, most))


def _merged(
    samples: PerSampleGradients, every: Collection[ParameterKey]
) -> dict[frozenset[ParameterKey], PerSampleGradients]:
    return dict(samples.by_parameters(every))


def _whole(samples: Samples, parameters: dict[str, nn.Parameter]) -> Rows:
    gradients = _joined([each.materialize() for each in samples])
    size = sum(len(each) for each in samples)
    return {
        name: gradients[name]
        if name in gradients
        else torch.zeros(size, *p.shape, dtype=p.dtype, device=p.device)
        for name, p in parameters.items()
    }


def _joined(parts: list[Rows]) -> Rows:
    if len(parts) == 1:
        return parts[0]
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def _finite(rows: Rows) -> Rows:
    if not math.isfinite(sum(map(largest_entry, rows.values()))):
        raise UnsupportedModuleError(
            "the module gives gradients that are not finite on standard normal "
            "inputs, so its samples cannot be compared. Scale its inputs, or "
            "start from other parameters."
        )
    return rows

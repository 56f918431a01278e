"""Notices parameters that were written between two steps, outside the optimizer.

Epsilon covers what the steps release.  Parameters that were refitted on records,
rewound, or moved by plain steps after ``detach`` are not covered, and nothing in the
gradients shows it.  So some entries of the parameters are compared with those that the
last step left behind.  A whole comparison would read every parameter twice a step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dpsgd_explorer.dp.distributed.sharding import local

#: Parameters that are looked at; a look takes about 0.5 microseconds each.
MAX_PARAMETERS = 12
#: Entries of a parameter that are compared, at least, if it has as many.
MIN_ENTRIES = 32
_WHOLE_NUMBERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class _Probe(NamedTuple):
    """Some entries of a parameter, on its own memory.

    Attributes:
        parameter: The parameter.
        address: Of its memory.
        entries: A view of numpy.
    """

    parameter: Tensor
    address: int
    entries: Any


class WeightsWatch:
    """Compares parameters on the CPU with those after the last step."""

    def __init__(self) -> None:
        self._probes: list[_Probe] = []
        self._seen: list[bytes] = []

    def remember(self, parameters: Sequence[Tensor]) -> None:
        """Take the parameters as they are for those of the last step."""
        chosen = _chosen(parameters)
        if [id(p) for p in chosen] != [id(probe.parameter) for probe in self._probes]:
            self._probes = [_probe(p) for p in chosen]
        self._seen = [probe.entries.tobytes() for probe in self._current()]

    def were_written(self, parameters: Sequence[Tensor]) -> bool:
        """Return True if the same parameters have other values than remembered."""
        if not self._seen or len(parameters) == 0:
            return False
        known = [probe.parameter for probe in self._probes]
        if any(p is not q for p, q in zip(_chosen(parameters), known, strict=False)):
            return False  # another part of the model is trained now
        return [probe.entries.tobytes() for probe in self._current()] != self._seen

    def forget(self) -> None:
        """Compare nothing until the next step."""
        self._seen = []

    def _current(self) -> list[_Probe]:
        """Return the probes, renewed where a parameter has other memory."""
        self._probes = [
            probe
            if probe.parameter.data_ptr() == probe.address
            else _probe(probe.parameter)
            for probe in self._probes
        ]
        return self._probes


def _chosen(parameters: Sequence[Tensor]) -> Sequence[Tensor]:
    """Return parameters spread over the model, the last ones among them."""
    if len(parameters) <= MAX_PARAMETERS:
        return parameters
    half = MAX_PARAMETERS // 2
    step = (len(parameters) - half) // half
    return [*parameters[: step * half : step], *parameters[-half:]]


def _probe(parameter: Tensor) -> _Probe:
    stored = local(parameter).detach()
    stride = max(1, stored.numel() // MIN_ENTRIES)
    whole = stored.as_strided((stored.numel(),), (1,), stored.storage_offset())
    entries = whole[::stride].view(_WHOLE_NUMBERS[stored.element_size()])
    return _Probe(parameter, parameter.data_ptr(), entries.numpy())


def can_be_watched(parameters: Sequence[Tensor]) -> bool:
    """Return True if the parameters are dense, and reading them waits for no device."""
    return all(
        local(p).device.type == "cpu"
        and not p.is_complex()
        and torch.ops.aten.is_non_overlapping_and_dense.default(local(p).detach())
        for p in parameters
    )

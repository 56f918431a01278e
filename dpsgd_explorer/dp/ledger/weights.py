"""Detection of parameters that were written between two steps, outside the optimizer.

Epsilon covers the engine's steps only.  It does not cover other changes of parameters:
fitting them on records, restoring earlier values, or ordinary steps after ``detach``.
Gradients do not show such changes, so some entries of the parameters are compared with
their values after the last step.  Comparing all entries would read every parameter
twice per step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dpsgd_explorer.dp.distributed.sharding import local

#: Maximum number of parameters that are compared.  Each takes about 0.5 microseconds.
MAX_PARAMETERS = 12
#: Minimum number of entries of a parameter that are compared; a smaller parameter is
#: compared whole.
MIN_ENTRIES = 32
#: {bytes per entry: integer dtype}.  NumPy has no bfloat16, so entries are compared as
#: integers.
_INTEGER_DTYPES = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class _Probe(NamedTuple):
    """A NumPy view of some entries of a parameter.

    Attributes:
        parameter: The parameter.
        address: Address of the parameter's memory when the view was created.
        entries: The entries, as a view of the parameter's memory.
    """

    parameter: Tensor
    address: int
    entries: Any


class WeightsWatch:
    """Compares parameters on the CPU with those after the last step."""

    def __init__(self) -> None:
        self._probes: list[_Probe] = []
        self._remembered: list[bytes] = []

    def remember(self, parameters: Sequence[Tensor]) -> None:
        """Remembers the parameters as the values after the last step."""
        chosen = _chosen(parameters)
        if [id(p) for p in chosen] != [id(probe.parameter) for probe in self._probes]:
            self._probes = [_probe(p) for p in chosen]
        self._remembered = [probe.entries.tobytes() for probe in self._current()]

    def were_written(self, parameters: Sequence[Tensor]) -> bool:
        """Returns True if the remembered parameters have other values now.

        Other parameters than the remembered ones give False.
        """
        if not self._remembered or len(parameters) == 0:
            return False
        previous = [probe.parameter for probe in self._probes]
        pairs = zip(_chosen(parameters), previous, strict=False)
        if any(p is not q for p, q in pairs):
            return False
        current = [probe.entries.tobytes() for probe in self._current()]
        return current != self._remembered

    def forget(self) -> None:
        """Skips the comparison before the next step."""
        self._remembered = []

    def _current(self) -> list[_Probe]:
        """Returns the probes; a parameter with new memory gets a new probe."""
        self._probes = [
            probe
            if probe.parameter.data_ptr() == probe.address
            else _probe(probe.parameter)
            for probe in self._probes
        ]
        return self._probes


def _chosen(parameters: Sequence[Tensor]) -> Sequence[Tensor]:
    """Returns at most MAX_PARAMETERS parameters: half evenly spaced, half the last."""
    if len(parameters) <= MAX_PARAMETERS:
        return parameters
    half = MAX_PARAMETERS // 2
    step = (len(parameters) - half) // half
    return [*parameters[: step * half : step], *parameters[-half:]]


def _probe(parameter: Tensor) -> _Probe:
    stored = local(parameter).detach()
    stride = max(1, stored.numel() // MIN_ENTRIES)
    whole = stored.as_strided((stored.numel(),), (1,), stored.storage_offset())
    entries = whole[::stride].view(_INTEGER_DTYPES[stored.element_size()])
    return _Probe(parameter, parameter.data_ptr(), entries.numpy())


def can_be_watched(parameters: Sequence[Tensor]) -> bool:
    """Returns True if all parameters are dense, real and on the CPU.

    Reading parameters of another device would wait for it at every step.
    """
    return all(
        local(p).device.type == "cpu"
        and not p.is_complex()
        and torch.ops.aten.is_non_overlapping_and_dense.default(local(p).detach())
        for p in parameters
    )

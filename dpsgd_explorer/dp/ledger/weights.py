"""Detection of parameters that were written between two steps, outside the optimizer.

Epsilon covers the engine's steps only.  It does not cover other changes of parameters:
fitting them on records, restoring earlier values, or ordinary steps after ``detach``.
Gradients do not show such changes, so some entries of the parameters are compared with
their values after the last step.  Comparing all entries would read every parameter
twice per step.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_
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

    def begin(self, parameters: Sequence[Tensor]) -> bool:
        """Chooses the entries that are compared from now on.

        Returns:
            True if these parameters have other values than those remembered before.
        """
        chosen = _chosen(parameters)
        if not all(map(is_, chosen, [probe.parameter for probe in self._probes])):
            self._remembered = []  # the parameters of another module
        were_written = self.were_written()
        self._probes = [_probe(p) for p in chosen]
        if self._remembered:
            self.remember()
        return were_written

    def remember(self, *_: object) -> None:
        """Remembers the values after a step; it takes the arguments of torch's hook."""
        self._remembered = self._values()

    def were_written(self) -> bool:
        """Returns True if there are other values than the remembered ones.

        The values are remembered, so each write is reported once.
        """
        if not self._remembered:
            return False
        before, self._remembered = self._remembered, self._values()
        return self._remembered != before

    def forget(self) -> None:
        """Skips the comparison before the next step."""
        self._remembered = []

    def _values(self) -> list[bytes]:
        """Returns the entries; a parameter with new memory gets a new probe."""
        for i, (parameter, address, _) in enumerate(self._probes):
            if parameter.data_ptr() != address:
                self._probes[i] = _probe(parameter)
        return [probe.entries.tobytes() for probe in self._probes]


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

"""The steps of an LSTM, forward and backward, each in one call.

Compiled from ``lstm_steps.c``, where that was done at install time and the processor
has AVX2.  Exponentials are within four roundings of a float.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from dpsgd_explorer.dp.backends.lstm import CellWeights, Steps
from dpsgd_explorer.dp.backends.native import team
from dpsgd_explorer.dp.backends.native.library import Loop, compiled_file, loop

#: The library's name, as pyproject.toml has it, without the platform's suffix.
NAME = "_lstm_steps"
#: Multiply-adds of all steps from which a second thread is worth its start.
MANY = 10**6
#: As in the C file: outputs per block of a packed matrix.
BLOCK = 32
#: Samples that a thread takes at once, at least and at most: a matrix is read once for
#: as many, and their gates stay in cache.
FEWEST, MOST = 8, 32


class LSTMSteps(NamedTuple):
    """The compiled functions, each of one ``struct sequence``."""

    forward: Loop
    backward: Loop


class _Sequence(ctypes.Structure):
    """``struct sequence``."""

    _fields_ = [
        ("team", team.Team),
        *[
            (name, ctypes.c_void_p)
            for name in (
                *("gates", "unprojected", "outputs", "tanh_memory", "memory_before"),
                *("hidden_before", "hidden", "memory", "active"),
                *("recurrent", "projection", "arriving", "totals", "scratch"),
            )
        ],
        *[
            (name, ctypes.c_ssize_t)
            for name in (
                *("steps", "samples", "hidden_units", "output_units", "is_reverse"),
                *("unit", "length"),
            )
        ],
    ]


@cache
def installed() -> LSTMSteps | None:
    """Return the functions; None if not compiled, or not for this processor."""
    file = compiled_file(Path(__file__).parent, NAME)
    return None if file is None else loaded(file)


def loaded(file: Path) -> LSTMSteps | None:
    """Return the functions of a compiled file; see ``library.loop``."""
    forward, backward = (
        loop(file, f"lstm_{name}", _Sequence) for name in ("forward", "backward")
    )
    if forward is None or backward is None:
        return None
    return LSTMSteps(forward, backward)


def is_supported(values: Tensor) -> bool:
    """Whether there are functions, and for such values."""
    if values.dtype is not torch.float32 or values.device.type != "cpu":
        return False
    return installed() is not None


@dataclass
class Sequence:
    """What the steps of T positions, B samples and H hidden units read and write.

    All tensors are contiguous float32.  With a projection there are P outputs, else H.

    Attributes:
        gates: [T, B, 4 H] in the order i, f, g, o.  ``forward`` finds what the inputs'
            map gives and leaves the gates, ``backward`` leaves their gradients.
        hidden: h before the first step, [B, P], overwritten by that after the last.
        memory: c, [B, H], likewise.
        weight: Of the hidden state, [4 H, P].
        projection: [P, H], or None.
        active: [T, B], 0 where h and c stay as they are, or None.
        reverse: Whether the last step is run first.
        unprojected: o tanh(c), [T, B, H].
        outputs: [T, B, P]; ``unprojected`` itself without a projection.
        hidden_before: h before each step, [B, T, P].
        totals: Gradients of the projection's results, [T, B, P]; empty without one.
    """

    gates: Tensor
    hidden: Tensor
    memory: Tensor
    weight: Tensor
    projection: Tensor | None
    active: Tensor | None
    reverse: bool

    def __post_init__(self) -> None:
        steps, samples, _ = self.gates.shape
        units, outputs = self.memory.shape[1], self.hidden.shape[1]
        new = self.gates.new_empty
        self.unprojected = new(steps, samples, units)
        self.outputs = (
            self.unprojected
            if self.projection is None
            else new(steps, samples, outputs)
        )
        self.hidden_before = new(samples, steps, outputs)
        self.totals = new(0)
        self._tanh_memory = torch.empty_like(self.unprojected)
        self._memory_before = torch.empty_like(self.unprojected)

    def forward(self) -> None:
        """Run all steps."""
        projection = None if self.projection is None else _packed(self.projection.t())
        self._run("forward", _packed(self.weight.t()), projection, None)

    def backward(self, outputs: Tensor, hidden: Tensor, memory: Tensor) -> None:
        """Run them back.

        Args:
            outputs: Gradients of the outputs, [T, B, P].
            hidden: Gradient of the last h, [B, P]; overwritten by that of the first.
            memory: The same of c, [B, H].
        """
        self.hidden, self.memory = hidden, memory
        projection = None
        if self.projection is not None:
            projection, self.totals = (
                _packed(self.projection),
                torch.empty_like(outputs),
            )
        self._run("backward", _packed(self.weight), projection, outputs)

    def _run(
        self,
        name: str,
        recurrent: Tensor,
        projection: Tensor | None,
        arriving: Tensor | None,
    ) -> None:
        function: Loop = getattr(installed(), name)
        steps, samples, units = self.unprojected.shape
        outputs = self.hidden.shape[1]
        work = steps * samples * 4 * units * outputs
        threads = team.useful_threads(samples, work, MANY)
        unit = min(max(-(-samples // threads), FEWEST), MOST)
        unit += -unit % FEWEST
        scratch = self.gates.new_empty(threads, unit, units + outputs)
        tensors = (
            *(self.gates, self.unprojected, self.outputs, self._tanh_memory),
            *(self._memory_before, self.hidden_before, self.hidden, self.memory),
            *(self.active, recurrent, projection, arriving, self.totals, scratch),
        )
        sizes = steps, samples, units, outputs, self.reverse, unit, function.lanes
        shared = team.team(threads, 1, -(-samples // unit))
        addresses = (None if t is None else t.data_ptr() for t in tensors)
        team.run(function.function, _Sequence(shared, *addresses, *sizes))


class CompiledSteps(Steps):
    """The steps by ``lstm_steps.c``."""

    def forward(
        self, cell: CellWeights, h: Tensor, c: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        active = cell.active
        self._sequence = Sequence(
            self.gates,
            _copied(h),
            _copied(c),
            cell.weight_hh,
            cell.projection,
            None if active is None else active.squeeze(2).contiguous(),
            cell.reverse,
        )
        sequence = self._sequence
        sequence.forward()
        self.unprojected = sequence.unprojected
        self.hidden_before = sequence.hidden_before.transpose(0, 1)
        return sequence.outputs, sequence.hidden, sequence.memory

    def backward(
        self, cell: CellWeights, outputs: Tensor, h: Tensor, c: Tensor
    ) -> tuple[Tensor, Tensor]:
        sequence = self._sequence
        sequence.backward(outputs.contiguous(), _copied(h), _copied(c))
        self.projected_gradients = sequence.totals
        return sequence.hidden, sequence.memory


def _copied(values: Tensor) -> Tensor:
    """Return values that may be overwritten, contiguous."""
    return values.clone(memory_format=torch.contiguous_format)


def _packed(matrix: Tensor) -> Tensor:
    """Return [inputs, outputs] in blocks, [blocks, inputs, BLOCK], the rest being 0."""
    filled = F.pad(matrix, (0, -matrix.shape[1] % BLOCK))
    return filled.reshape(len(matrix), -1, BLOCK).transpose(0, 1).contiguous()

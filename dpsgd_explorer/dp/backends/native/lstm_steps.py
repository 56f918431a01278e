"""All steps of an LSTM in one call, forward and backward.

The loops are in ``lstm_steps.c``.  They are available if they were compiled at install
time and the processor has AVX2.  Exponentials are exact to four roundings of a float.
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
from dpsgd_explorer.dp.backends.native.library import Loop, compiled_file, load_loop

#: File name of the library in pyproject.toml, without the platform's suffix.
NAME = "_lstm_steps"
#: Multiply-adds of all steps.  With fewer, the start of a second thread costs more than
#: it saves.
MIN_PARALLEL_PRODUCTS = 10**6
#: Outputs per block of a packed matrix, as in the C file.
BLOCK = 32
#: Samples of a unit of work, a multiple of the minimum.  A matrix is read once for all
#: samples of a unit, so they must not be too few.  Their gates must stay in cache, so
#: they must not be too many.
MIN_UNIT_SAMPLES, MAX_UNIT_SAMPLES = 8, 32


class LSTMSteps(NamedTuple):
    """The compiled functions; each runs all steps of a ``struct sequence``."""

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
    """Returns the installed functions; None if this processor cannot run them."""
    file = compiled_file(Path(__file__).parent, NAME)
    return None if file is None else load(file)


def load(file: Path) -> LSTMSteps | None:
    """Returns the functions of a compiled file; see ``library.load_loop``."""
    forward, backward = (
        load_loop(file, f"lstm_{name}", _Sequence) for name in ("forward", "backward")
    )
    if forward is None or backward is None:
        return None
    return LSTMSteps(forward, backward)


def is_supported(values: Tensor) -> bool:
    """Returns True if the functions are installed and support these values."""
    if values.dtype is not torch.float32 or values.device.type != "cpu":
        return False
    return installed() is not None


@dataclass
class Sequence:
    """Inputs and results of the steps of a sequence.

    T steps, B samples, H hidden units, and P outputs (H without a projection).  All
    tensors are contiguous float32.

    Attributes:
        gates: [T, B, 4 H] in the order i, f, g, o.  Initially the linear map of the
            inputs; ``forward`` overwrites it with the gates, and ``backward`` with the
            gates' gradients.
        hidden: h before the first step, [B, P]; overwritten with h after the last step.
        memory: c before the first step, [B, H]; overwritten with c after the last step.
        weight: Weight of the hidden state, [4 H, P].
        projection: [P, H], or None.
        active: [T, B], 0 where h and c do not change; None if they always change.
        reverse: If True, the last step runs first.
        unprojected: o tanh(c), [T, B, H].
        outputs: [T, B, P]; the tensor ``unprojected`` if there is no projection.
        hidden_before: h before each step, [B, T, P].
        totals: Gradients of the projection's results, [T, B, P]; empty if there is no
            projection.
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
        """Runs all steps."""
        projection = None if self.projection is None else _packed(self.projection.t())
        self._run("forward", _packed(self.weight.t()), projection, None)

    def backward(self, outputs: Tensor, hidden: Tensor, memory: Tensor) -> None:
        """Runs all steps backward.

        Args:
            outputs: Gradients of the outputs, [T, B, P].
            hidden: Gradient of h after the last step, [B, P]; overwritten with the
                gradient of h before the first step.
            memory: Gradient of c after the last step, [B, H]; overwritten with the
                gradient of c before the first step.
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
        threads = team.useful_threads(samples, work, MIN_PARALLEL_PRODUCTS)
        unit = -(-samples // threads)
        unit = min(max(unit, MIN_UNIT_SAMPLES), MAX_UNIT_SAMPLES)
        unit += -unit % MIN_UNIT_SAMPLES
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
    """The steps with the compiled functions."""

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
    """Returns a contiguous copy, which may be overwritten."""
    return values.clone(memory_format=torch.contiguous_format)


def _packed(matrix: Tensor) -> Tensor:
    """Returns [inputs, outputs] in zero-padded blocks, [blocks, inputs, BLOCK]."""
    filled = F.pad(matrix, (0, -matrix.shape[1] % BLOCK))
    return filled.reshape(len(matrix), -1, BLOCK).transpose(0, 1).contiguous()

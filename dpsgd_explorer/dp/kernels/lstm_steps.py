"""The element-wise part of a step of an LSTM, forward and backward, as one loop each.

Compiled from ``lstm_steps.c``, where that was done at install time.  Exponentials are
within two roundings of a float.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from dpsgd_explorer.dp.kernels import team
from dpsgd_explorer.dp.kernels.library import Function, agrees, compiled_file, opened

#: The library's name, as pyproject.toml has it, without the platform's suffix.
NAME = "_lstm_steps"
#: Numbers of a step from which a second thread is worth its start.
MANY = 2**12


class LSTMSteps(NamedTuple):
    """The compiled functions, each of one ``struct step``."""

    forward: Function
    backward: Function


class _Step(ctypes.Structure):
    """``struct step``."""

    _fields_ = [
        *[
            (name, ctypes.c_void_p)
            for name in (
                *("gates", "before", "active", "memory", "tanh_memory", "output"),
                *("dm", "dc"),
            )
        ],
        *[(name, ctypes.c_ssize_t) for name in ("samples", "hidden", "next")],
    ]


@cache
def installed() -> LSTMSteps | None:
    """Return the functions; None if they are not compiled."""
    file = compiled_file(Path(__file__).parent, NAME)
    return None if file is None else loaded(file)


def loaded(file: Path) -> LSTMSteps | None:
    """Return the functions of a compiled file; None if another version's made it."""
    library = opened(file)
    if not agrees(library, "step_bytes", _Step):
        return None
    functions = LSTMSteps(library.lstm_forward, library.lstm_backward)
    for function in functions:
        function.restype = None
    return functions


def serves(values: Tensor) -> bool:
    """Whether there are functions, and for such values."""
    if values.dtype is not torch.float32 or values.device.type != "cpu":
        return False
    return installed() is not None


def forward(
    gates: Tensor,
    before: Tensor,
    active: Tensor | None,
    *,
    memory: Tensor,
    tanh_memory: Tensor,
    output: Tensor,
) -> None:
    """Put the gates through their functions, and write what follows from them.

    Args:
        gates: [B, 4 H] as the linear maps give them, in the order i, f, g, o;
            overwritten by what they are then.  All arguments are contiguous float32.
        before: The memory before the step, [B, H].
        active: [B, 1], 0 where the memory stays as it was; None: 1 everywhere.
        memory: Gets the memory after the step, [B, H].
        tanh_memory: Gets tanh of what it is where the step is active, [B, H].
        output: Gets o tanh(c), [B, H].
    """
    tensors = gates, before, active, memory, tanh_memory, output
    _run("forward", before, _Step(*map(_address, tensors), None, None, *before.shape))


def backward(
    gates: Tensor,
    before: Tensor,
    active: Tensor | None,
    *,
    tanh_memory: Tensor,
    dm: Tensor,
    dc: Tensor,
) -> None:
    """Overwrite the gates, and the memory's gradient, by the gradients before the step.

    Args:
        gates: As ``forward`` left them, [B, 4 H].
        before: As for ``forward``.
        active: As for ``forward``; 0 gives gates of 0 and leaves dc.
        tanh_memory: As ``forward`` left it.
        dm: Gradient of o tanh(c), [B, H].
        dc: Gradient of the memory after the step; then of that before it, [B, H].
    """
    written = None, tanh_memory, None, dm, dc
    tensors = gates, before, active, *written
    _run("backward", before, _Step(*map(_address, tensors), *before.shape))


def _address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def _run(name: str, values: Tensor, step: _Step) -> None:
    threads = torch.get_num_threads() if values.numel() >= MANY else 1
    team.run(getattr(installed(), name), step, threads)

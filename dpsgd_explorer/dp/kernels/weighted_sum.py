"""The weighted sum of the samples' gradients, by as many threads as torch has.

Compiled from ``weighted_sum.c``, where that was done at install time and the processor
has AVX2.  torch's own product of a matrix and a vector takes one thread for it.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from dpsgd_explorer.dp.kernels import team
from dpsgd_explorer.dp.kernels.library import Loop, compiled_file, loop

#: The library's name, as pyproject.toml has it, without the platform's suffix.
NAME = "_weighted_sum"
#: Numbers from which a call costs less than torch's, and a second thread its start.
FEW, MANY = 2**14, 2**18
#: Numbers of the sum that a thread takes at once: a multiple of those of 8 vectors.
UNIT = 2**12


class _Job(ctypes.Structure):
    """``struct job``."""

    _fields_ = [
        ("team", team.Team),
        *[(name, ctypes.c_void_p) for name in ("rows", "weights", "total")],
        *[
            (name, ctypes.c_ssize_t)
            for name in ("samples", "numbers", "unit", "length")
        ],
    ]


@cache
def installed() -> Loop | None:
    """Return the function; None if it is not compiled, or not for this processor."""
    file = compiled_file(Path(__file__).parent, NAME)
    return None if file is None else loaded(file)


def loaded(file: Path) -> Loop | None:
    """Return the function of a compiled file; see ``library.loop``."""
    return loop(file, "weighted_sum", _Job)


def add_weighted_sum(rows: Tensor, weights: Tensor, total: Tensor) -> None:
    """Add sum_i weights[i] rows[i], [P], to ``total``.

    Args:
        rows: Contiguous, [B, P].
        weights: [B].
        total: Contiguous, [P].
    """
    numbers = rows.numel()
    compiled = installed() if numbers >= FEW else None
    if compiled is None or not _serves(rows, weights, total):
        total.addmv_(rows.t(), weights)
        return
    columns = -(-total.numel() // UNIT)
    threads = team.useful_threads(columns, numbers, MANY)
    job = _Job(
        team.team(threads, 1, columns),
        rows.data_ptr(),
        weights.data_ptr(),
        total.data_ptr(),
        *rows.shape,
        *(UNIT, compiled.lanes),
    )
    team.run(compiled.function, job)


def _serves(*tensors: Tensor) -> bool:
    return all(
        t.dtype is torch.float32 and t.is_cpu and t.is_contiguous() for t in tensors
    )

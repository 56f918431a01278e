"""Gradients of linear maps, sample by sample, with their norms.

Compiled from ``linear_products.c``, where that was done at install time and the
processor has AVX2.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from dpsgd_explorer.dp.kernels import team
from dpsgd_explorer.dp.kernels.library import Loop, compiled_file, loop
from dpsgd_explorer.dp.kernels.memory_pool import POOL

#: The library's name, as pyproject.toml has it, without the platform's suffix.
NAME = "_linear_products"
#: Multiply-adds from which a second thread is worth its start.
MANY = 10**7
#: Roundings of a squared norm: of 16 squares added in float32, and after it.
ROUNDINGS = 24
#: As in the C file: outputs of a unit of work, and inputs of a panel.
UNIT, PANEL = 64, 16


class Products(NamedTuple):
    """What is computed of a batch.

    Attributes:
        weight: sum_t g_t x_t^T, [B, p, d].
        bias: sum_t g_t, [B, p]; None if it was not asked for.
        squared_norms: Of both together, [B].
    """

    weight: Tensor
    bias: Tensor | None
    squared_norms: Tensor


class _Job(ctypes.Structure):
    """``struct job``."""

    _fields_ = [
        ("team", team.Team),
        *[
            (name, ctypes.c_void_p)
            for name in ("x", "g", "weight", "bias", "squares", "norms", "scratch")
        ],
        *[
            (name, ctypes.c_ssize_t)
            for name in (
                *("samples", "positions", "inputs", "outputs"),
                *("x_sample", "x_position", "g_sample", "g_position"),
                *("length", "done"),
            )
        ],
        ("longer", ctypes.c_double),
    ]


@cache
def installed() -> Loop | None:
    """Return the function; None if it is not compiled, or not for this processor."""
    file = compiled_file(Path(__file__).parent, NAME)
    return None if file is None else loaded(file)


def loaded(file: Path) -> Loop | None:
    """Return the function of a compiled file; see ``library.loop``."""
    return loop(file, "linear_products", _Job)


def serves(x: Tensor, g: Tensor) -> bool:
    """Whether there is a function, and for such values."""
    return (
        x.dtype is g.dtype is torch.float32
        and x.is_cpu
        and g.is_cpu
        and installed() is not None
    )


def linear_products(
    x: Tensor, g: Tensor, *, bias: bool, longer: float = 1.0
) -> Products | None:
    """Return the gradients of y = x W^T + b for each sample, and their norms.

    None where there is no function, or not for such values.

    Args:
        x: Inputs, [B, T, d].
        g: Gradients of the outputs, [B, T, p].
        bias: Whether the bias has a gradient.
        longer: Factor of the squared norms, which have ROUNDINGS roundings.
    """
    compiled = installed()
    if compiled is None or not serves(x, g):
        return None
    x, g = _dense(x), _dense(g)
    batch, positions, inputs = x.shape
    outputs = g.shape[2]
    columns = -(-outputs // UNIT)
    weight = POOL.empty(batch, outputs, inputs)
    of_bias = x.new_empty(batch, outputs) if bias else None
    norms = x.new_empty(batch)
    work = batch * outputs * inputs * positions
    threads = team.useful_threads(batch * columns, work, MANY)
    panels = threads * positions * (UNIT + PANEL)
    scratch = x.new_empty(batch * columns + -(-panels // 2), dtype=torch.float64)
    squares = scratch.data_ptr()
    x_strides, g_strides = x.stride(), g.stride()
    job = _Job(
        team.team(threads, batch, columns),
        x.data_ptr(),
        g.data_ptr(),
        weight.data_ptr(),
        None if of_bias is None else of_bias.data_ptr(),
        squares,
        norms.data_ptr(),
        squares + 8 * batch * columns,
        batch,
        positions,
        inputs,
        outputs,
        x_strides[0],
        x_strides[1],
        g_strides[0],
        g_strides[1],
        compiled.lanes,
        0,
        longer,
    )
    team.run(compiled.function, job)
    return Products(weight, of_bias, norms)


def _dense(values: Tensor) -> Tensor:
    """Return values whose last dimension lies in one piece."""
    return values if values.stride(2) == 1 else values.contiguous()

"""Squared norms of gradients that are one outer product per sample, in one pass.

Compiled from ``outer_norms.c``, where that was done at install time and the processor
has AVX2.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from dpsgd_explorer.dp.kernels.library import Loop, compiled_file, opened

#: The library's name, as pyproject.toml has it, without the platform's suffix.
NAME = "_outer_norms"
#: Roundings of a sum of squares: of those added in float32.
ROUNDINGS = 24


@cache
def installed() -> Loop | None:
    """Return the function; None if it is not compiled, or not for this processor."""
    file = compiled_file(Path(__file__).parent, NAME)
    return None if file is None else loaded(file)


def loaded(file: Path) -> Loop | None:
    """Return the function of a compiled file; None if this processor is too old."""
    library = opened(file)
    function, size = library.outer_norms, ctypes.c_ssize_t
    function.argtypes = (
        *(ctypes.c_void_p, size, size),
        *(ctypes.c_void_p, size, size),
        *(ctypes.c_void_p, size, ctypes.c_double, ctypes.c_int),
    )
    function.restype = None
    lanes = library.lanes()
    return Loop(function, lanes) if lanes else None


def serves(x: Tensor, g: Tensor) -> bool:
    """Whether there is a function, and for such values."""
    return (
        x.dtype is g.dtype is torch.float32
        and x.is_cpu
        and g.is_cpu
        and x.stride(1) == g.stride(1) == 1
        and installed() is not None
    )


def outer_norms(x: Tensor, g: Tensor, longer: float) -> Tensor:
    """Return ||g_i||^2 (||x_i||^2 + 1) times ``longer``, float32 [B].

    Each of the two sums of squares has ROUNDINGS roundings, and their product one.

    Args:
        x: Inputs, [B, d]; ``serves`` says yes.
        g: Gradients of the outputs, [B, p].
        longer: Factor.
    """
    compiled = installed()
    assert compiled is not None
    (samples, inputs), outputs = x.shape, g.shape[1]
    norms = x.new_empty(samples)
    compiled.function(
        *(x.data_ptr(), x.stride(0), inputs),
        *(g.data_ptr(), g.stride(0), outputs),
        *(norms.data_ptr(), samples, longer, compiled.lanes),
    )
    return norms

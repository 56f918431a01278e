"""The Box-Muller transform of ``box_muller.c``, if it was compiled at install time."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from dpsgd_explorer.dp.backends.native.library import compiled_file, load_library

#: File name of the library in pyproject.toml, without the platform's suffix.
NAME = "_box_muller"

#: ``BoxMuller.add_normals`` for contiguous float32 values on the CPU.
AddNormals = Callable[[Tensor, Tensor, float, float, float], float]


@cache
def installed() -> AddNormals | None:
    """Returns the installed transform; None if this processor cannot run one."""
    file = compiled_file(Path(__file__).parent, NAME)
    return None if file is None else load(file)


def load(file: Path) -> AddNormals | None:
    """Returns the transform of a compiled file.

    None if this processor has no fused multiply-add with AVX2, or if the file was
    compiled from the source of another version.
    """
    library = load_library(file)
    # A library of an earlier version lacks this function: it did not divide.
    if library is None or not hasattr(library, "add_normals_and_divide"):
        return None
    if not library.rounds_once():
        return None
    function = library.add_normals_and_divide
    function.restype = ctypes.c_float
    function.argtypes = (
        ctypes.c_void_p,
        ctypes.c_ssize_t,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_float,
        ctypes.c_float,
        ctypes.c_float,
    )

    def add_normals(
        values: Tensor, bits: Tensor, scale: float, shift: float, divisor: float = 1.0
    ) -> float:
        size, start = values.numel(), bits.data_ptr()
        angles = start + 8 * ((size + 1) // 2)
        square: float = function(
            values.data_ptr(), size, start, angles, scale, shift, divisor
        )
        return square

    return add_normals


def is_supported(values: Tensor) -> bool:
    """Returns True if the compiled transform supports these values, [P]."""
    return (
        values.dtype is torch.float32
        and values.device.type == "cpu"
        and values.is_contiguous()
    )

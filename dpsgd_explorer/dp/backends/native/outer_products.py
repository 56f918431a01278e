"""Gradients that are one outer product per sample: norms and sums of many layers.

Compiled from ``outer_products.c``, where that was done at install time and the
processor has AVX2.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from dpsgd_explorer.dp.backends.linear import OuterProductCall, WeightedCall
from dpsgd_explorer.dp.backends.native.library import Function, compiled_file, opened

#: The library's name, as pyproject.toml has it, without the platform's suffix.
NAME = "_outer_products"
#: Roundings of a sum of squares: of those added in float32.
ROUNDINGS = 24
#: Multiply-adds up to which a product costs less here than a call of torch's.
FEW = 2**14
#: Numbers of ``struct call`` and of ``struct sum``.
_OF_CALL, _OF_SUM = 6, 10


class Functions(NamedTuple):
    """The compiled functions, and the length of their vectors."""

    squared_norms: Function
    add_weighted: Function
    add_rows: Function
    lanes: int


@cache
def installed() -> Functions | None:
    """Return the functions; None if not compiled, or not for this processor."""
    file = compiled_file(Path(__file__).parent, NAME)
    return None if file is None else loaded(file)


def loaded(file: Path) -> Functions | None:
    """Return a compiled file's functions.

    None if this processor is too old, or another version's source was compiled.
    """
    library, size, address = opened(file), ctypes.c_ssize_t, ctypes.c_void_p
    if library is None or not hasattr(library, "job_bytes"):
        return None
    lanes = library.lanes()
    if not lanes or library.job_bytes() != 8 * (_OF_CALL + _OF_SUM):
        return None
    norms, weighted, rows = (
        library.squared_norms,
        library.add_weighted,
        library.add_rows,
    )
    norms.argtypes = address, size, address, size, ctypes.c_double, ctypes.c_int
    weighted.argtypes = address, size, size, ctypes.c_float
    rows.argtypes = address, size, size, ctypes.c_int, address
    norms.restype = weighted.restype = None
    return Functions(norms, weighted, rows, lanes)


def is_supported(call: OuterProductCall) -> bool:
    """Whether there are functions, and for such values."""
    x, g = call
    return (
        x.dtype is g.dtype is torch.float32
        and x.is_cpu
        and g.is_cpu
        and x.stride(1) == g.stride(1) == 1
        and installed() is not None
    )


def squared_norms(calls: Sequence[OuterProductCall], longer: float) -> Sequence[Tensor]:
    """Return ||g_i||^2 (||x_i||^2 + 1) times ``longer``, L times float32 [B].

    Each of the two sums of squares has ROUNDINGS roundings, and their product one.

    Args:
        calls: L calls of one kind; ``is_supported`` holds.
        longer: Factor.
    """
    compiled = installed()
    assert compiled is not None
    count, samples = len(calls), calls[0].inputs.shape[0]
    shape = (count, samples) if count > 1 else (samples,)
    norms = calls[0].inputs.new_empty(shape)
    table = array("q", [number for call in calls for number in _row(call)])
    compiled.squared_norms(
        *(table.buffer_info()[0], count),
        *(norms.data_ptr(), samples, longer, compiled.lanes),
    )
    return norms.unbind(0) if count > 1 else (norms,)


def sum_is_supported(weighted: WeightedCall) -> bool:
    """Whether there are functions for a weighted sum of such values."""
    call, weights, weight, bias = weighted
    return (
        weights.dtype is weight.dtype is bias.dtype is torch.float32
        and bias.shape == weight.shape[:1]
        and weight.shape == (call.backprops.shape[1], call.inputs.shape[1])
        and call.inputs.shape[0] == call.backprops.shape[0] == weights.shape[0]
        and weights.is_contiguous()
        and weight.is_contiguous()
        and bias.is_contiguous()
        and is_supported(call)
    )


def add_weighted(calls: Sequence[WeightedCall], scale: float) -> None:
    """Add sum_i scale weights[i] g_i x_i^T and sum_i scale weights[i] g_i.

    Args:
        calls: L calls of one batch size; ``sum_is_supported`` holds.
        scale: Factor.
    """
    compiled = installed()
    assert compiled is not None
    numbers: list[int] = []
    products: list[tuple[Tensor, Tensor, Tensor]] = []
    for call, weights, weight, bias in calls:
        x, g = call
        to_scaled = 0
        if g.numel() * x.shape[1] > FEW:
            scaled = g.new_empty(g.shape)
            to_scaled = scaled.data_ptr()
            products.append((weight, scaled, x))
        numbers += _row(call)
        numbers += (
            *(weights.data_ptr(), to_scaled),
            *(weight.data_ptr(), bias.data_ptr()),
        )
    table = array("q", numbers)
    samples = calls[0].weights.shape[0]
    compiled.add_weighted(table.buffer_info()[0], len(calls), samples, scale)
    for weight, scaled, x in products:
        weight.addmm_(scaled.t(), x)


def add_rows(
    values: Sequence[Tensor], *, roots: bool = False
) -> tuple[Tensor, bool] | None:
    """Return the sum of tensors [B], and whether it is finite.

    Added in float64 and rounded once; None where there is no function, or not for such
    values.

    Args:
        values: The tensors.
        roots: Whether the square roots of the sum are returned in its place.
    """
    compiled = installed()
    size = values[0].shape
    if compiled is None or not all(_is_row(row, size) for row in values):
        return None
    sums = torch.empty_like(values[0])
    rows = array("q", [row.data_ptr() for row in values])
    address, count = rows.buffer_info()
    finite = compiled.add_rows(address, count, sums.shape[0], roots, sums.data_ptr())
    return sums, bool(finite)


def _is_row(values: Tensor, size: torch.Size) -> bool:
    return (
        values.dtype is torch.float32
        and values.is_cpu
        and values.dim() == 1
        and values.shape == size
        and values.is_contiguous()
    )


def _row(call: OuterProductCall) -> tuple[int, ...]:
    """Return what a ``struct call`` or ``struct sum`` has of a call."""
    x, g = call
    return (
        *(x.data_ptr(), g.data_ptr()),
        *(x.stride(0), x.shape[1], g.stride(0), g.shape[1]),
    )

"""Norms and weighted sums of per-sample gradients that are one outer product.

One call computes the norms, or the sums, of several layers.  The functions are in
``outer_products.c``.  They are available if they were compiled at install time and the
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
from dpsgd_explorer.dp.backends.native.library import (
    Function,
    compiled_file,
    load_library,
)

#: File name of the library in pyproject.toml, without the platform's suffix.
NAME = "_outer_products"
#: Roundings of a sum of squares, at most: up to 64 vectors of squares are added in
#: float32, as 8 sums of 8 and then the total of these; the rest in float64.
ROUNDINGS = 24
#: Multiply-adds of a product that the loop adds itself.  Larger products use torch's
#: matrix product, which is faster, but costs a call.
MAX_LOOP_PRODUCTS = 2**14
#: Fields of ``struct call`` and of ``struct sum``, 8 bytes each.
_CALL_FIELDS, _SUM_FIELDS = 6, 10


class Functions(NamedTuple):
    """The compiled functions.

    Attributes:
        squared_norms: Norms of the gradients of several calls.
        add_weighted: Weighted sums of these gradients.
        add_rows: Sums of rows.
        lanes: Numbers per vector of the processor's longest supported vectors.
    """

    squared_norms: Function
    add_weighted: Function
    add_rows: Function
    lanes: int


@cache
def installed() -> Functions | None:
    """Returns the installed functions; None if this processor cannot run them."""
    file = compiled_file(Path(__file__).parent, NAME)
    return None if file is None else load(file)


def load(file: Path) -> Functions | None:
    """Returns the functions of a compiled file.

    None if this processor has no AVX2, or if the file was compiled from the source of
    another version.
    """
    library, size, address = load_library(file), ctypes.c_ssize_t, ctypes.c_void_p
    if library is None or not hasattr(library, "job_bytes"):
        return None
    lanes = library.lanes()
    if not lanes or library.job_bytes() != 8 * (_CALL_FIELDS + _SUM_FIELDS):
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
    """Returns True if the functions are installed and support these tensors."""
    x, g = call
    return (
        x.dtype is g.dtype is torch.float32
        and x.is_cpu
        and g.is_cpu
        and x.stride(1) == g.stride(1) == 1
        and installed() is not None
    )


def squared_norms(calls: Sequence[OuterProductCall], factor: float) -> Sequence[Tensor]:
    """Returns factor * ||g_i||^2 (||x_i||^2 + 1) for n calls, n tensors float32 [B].

    Each of the two sums of squares has at most ROUNDINGS roundings, and their product
    one.

    Args:
        calls: n calls with equal ``kind``; ``is_supported`` holds for each.
        factor: Factor of all norms.
    """
    compiled = installed()
    assert compiled is not None
    count, samples = len(calls), calls[0].inputs.shape[0]
    shape = (count, samples) if count > 1 else (samples,)
    norms = calls[0].inputs.new_empty(shape)
    table = array("q", [number for call in calls for number in _fields(call)])
    compiled.squared_norms(
        *(table.buffer_info()[0], count),
        *(norms.data_ptr(), samples, factor, compiled.lanes),
    )
    return norms.unbind(0) if count > 1 else (norms,)


def is_sum_supported(weighted: WeightedCall) -> bool:
    """Returns True if ``add_weighted`` is installed and supports these tensors."""
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
    """Adds sum_i scale weights[i] g_i x_i^T and sum_i scale weights[i] g_i.

    Args:
        calls: Calls with one batch size; ``is_sum_supported`` holds for each.
        scale: Factor of all weights.
    """
    compiled = installed()
    assert compiled is not None
    numbers: list[int] = []
    products: list[tuple[Tensor, Tensor, Tensor]] = []
    for call, weights, weight, bias in calls:
        x, g = call
        scaled_address = 0  # NULL: the loop adds the products to the weight.
        if g.numel() * x.shape[1] > MAX_LOOP_PRODUCTS:
            scaled = g.new_empty(g.shape)
            scaled_address = scaled.data_ptr()
            products.append((weight, scaled, x))
        numbers += _fields(call)
        numbers += (
            *(weights.data_ptr(), scaled_address),
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
    """Returns the sum of rows, added in float64 and rounded once.

    Args:
        values: Rows, [B] each.
        roots: If True, the square roots of the sum are returned instead.

    Returns:
        The sum or its square roots, [B], and True if all sums are finite.  None if the
        function is not installed or does not support these tensors.
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


def _fields(call: OuterProductCall) -> tuple[int, ...]:
    """Returns the fields of ``struct call``."""
    x, g = call
    return (
        *(x.data_ptr(), g.data_ptr()),
        *(x.stride(0), x.shape[1], g.stride(0), g.shape[1]),
    )

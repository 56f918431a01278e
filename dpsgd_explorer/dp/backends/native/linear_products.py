"""Per-sample gradients of linear maps and their norms, for several maps in one call.

The loop is ``linear_products.c``.  It is available if it was compiled at install time
and the processor has AVX2.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from dpsgd_explorer.dp.backends.linear import LinearGradients, LinearMap
from dpsgd_explorer.dp.backends.native import team
from dpsgd_explorer.dp.backends.native.library import Loop, compiled_file, load_loop
from dpsgd_explorer.dp.backends.native.memory_pool import POOL
from dpsgd_explorer.dp.backends.native.weighted_sum import WeightedSums
from dpsgd_explorer.dp.backends.rounding import EXTRA_ROUNDINGS, gamma, underflow_bound

#: File name of the library in pyproject.toml, without the platform's suffix.
NAME = "_linear_products"
#: Multiply-adds of a call.  With fewer, the start of a second thread costs more than it
#: saves.
MIN_PARALLEL_PRODUCTS = 10**7
#: Roundings of a squared norm, at most: 16 squares are added in float32, the rest in
#: float64.
ROUNDINGS = 24
#: Factor that makes a squared norm of the loop an upper bound.
NORM_MARGIN = 1 + gamma(ROUNDINGS + EXTRA_ROUNDINGS, torch.float32)
#: Outputs of a unit of work and inputs of a panel, as in the C file.
UNIT, PANEL = 64, 16
#: float32 numbers of a cache line.  Each gradient begins at a multiple of them.
LINE_NUMBERS = 16


class _Map(ctypes.Structure):
    """``struct map``."""

    _fields_ = [
        *[(name, ctypes.c_void_p) for name in ("x", "g")],
        *[
            (name, ctypes.c_ssize_t)
            for name in (
                *("positions", "inputs", "outputs"),
                *("x_sample", "x_position", "g_sample", "g_position"),
                *("weight", "bias", "column"),
            )
        ],
    ]


class _Job(ctypes.Structure):
    """``struct job``."""

    _fields_ = [
        ("team", team.Team),
        ("maps", ctypes.c_void_p),
        *[
            (name, ctypes.c_void_p)
            for name in ("gradients", "squares", "norms", "scratch")
        ],
        *[
            (name, ctypes.c_ssize_t)
            for name in ("count", "first", "samples", "panels", "length", "done")
        ],
        ("margin", ctypes.c_double),
    ]


@cache
def installed() -> Loop | None:
    """Returns the installed loop; None if this processor cannot run one."""
    file = compiled_file(Path(__file__).parent, NAME)
    return None if file is None else load(file)


def load(file: Path) -> Loop | None:
    """Returns the loop of a compiled file; see ``library.load_loop``."""
    return load_loop(file, "linear_products", _Job, _Map)


def is_supported(x: Tensor, g: Tensor) -> bool:
    """Returns True if the loop is installed and supports these tensors."""
    return (
        x.dtype is g.dtype is torch.float32
        and x.is_cpu
        and g.is_cpu
        and g.shape[-1] > 0
        and installed() is not None
    )


class LinearMaps:
    """Linear maps of one batch, whose gradients are computed and summed together.

    Args:
        maps: At least one map.  ``is_supported`` holds for each, and all have one batch
            size.
    """

    def __init__(self, maps: Sequence[LinearMap]) -> None:
        self._maps = [LinearMap(_dense(x), _dense(g), bias) for x, g, bias in maps]
        self._table = (_Map * len(maps))()
        self._columns = self._work = self._positions = 0
        sizes: list[int] = []
        offsets: list[int] = []
        numbers = 0
        for entry, (x, g, bias) in zip(self._table, self._maps, strict=True):
            (_, positions, inputs), outputs = x.shape, g.shape[2]
            for size in (outputs * inputs, outputs)[: 1 + bias]:
                sizes.append(size)
                offsets.append(numbers)
                numbers += -(-size // LINE_NUMBERS) * LINE_NUMBERS
            x_strides, g_strides = x.stride(), g.stride()
            entry.x, entry.g = x.data_ptr(), g.data_ptr()
            entry.positions, entry.inputs, entry.outputs = positions, inputs, outputs
            entry.x_sample, entry.x_position = x_strides[0], x_strides[1]
            entry.g_sample, entry.g_position = g_strides[0], g_strides[1]
            entry.weight, entry.bias = offsets[-1 - bias], offsets[-1] if bias else -1
            entry.column = self._columns
            self._columns += -(-outputs // UNIT)
            self._work += positions * inputs * outputs
            self._positions = max(self._positions, positions)
        self._numbers = numbers
        #: Largest loss by underflow of a squared norm, for the maps together.
        self._underflow = underflow_bound(numbers, torch.float32)
        self.sums = WeightedSums(sizes, offsets)

    @property
    def first(self) -> LinearMap:
        """First map."""
        return self._maps[0]

    @property
    def batch_size(self) -> int:
        """Number of samples, B."""
        return len(self.first.inputs)

    def products(self, samples: range) -> MapGradients:
        """Returns the gradients of consecutive samples by all maps, and their norms."""
        compiled = installed()
        assert compiled is not None
        count, rows, columns = len(self._maps), len(samples), self._columns
        gradients = POOL.empty(rows * self._numbers)
        norms = torch.empty(count, rows)
        threads = team.useful_threads(
            rows * columns, rows * self._work, MIN_PARALLEL_PRODUCTS
        )
        panels = self._positions * (UNIT + PANEL)
        in_doubles = rows * columns + -(-threads * panels // 2)
        scratch = torch.empty(in_doubles, dtype=torch.float64)
        squares = scratch.data_ptr()
        job = _Job(
            team.team(threads, rows, columns),
            ctypes.addressof(self._table),
            gradients.data_ptr(),
            squares,
            norms.data_ptr(),
            squares + 8 * rows * columns,
            count,
            samples.start,
            rows,
            panels,
            compiled.lanes,
            0,
            NORM_MARGIN,
        )
        team.run(compiled.function, job)
        norms.add_(self._underflow)
        return MapGradients(self, gradients, norms)


class MapGradients:
    """Per-sample gradients of several linear maps.

    Attributes:
        squared_norms: Squared norms of weight and bias together, [maps, B]; never too
            small.
    """

    def __init__(
        self, maps: LinearMaps, gradients: Tensor, squared_norms: Tensor
    ) -> None:
        self.squared_norms = squared_norms
        self._maps, self._gradients = maps, gradients

    def first_gradients(self) -> LinearGradients:
        """Returns the gradients of the first map."""
        x, g, bias = self._maps.first
        samples = self.squared_norms.shape[1]
        rows = self._maps.sums.rows(self._gradients, samples)
        weight = next(rows).view(samples, g.shape[2], x.shape[2])
        norms = self.squared_norms[0]
        return LinearGradients(weight, next(rows) if bias else None, norms)

    def add_weighted(
        self, weights: Sequence[Tensor], totals: Sequence[Sequence[Tensor]]
    ) -> None:
        """Adds sum_i weights[m][i] * gradient_i of each map m to the map's totals.

        Args:
            weights: [B] for each map.
            totals: For each map the sum of its weight [p, d], and the sum of its bias
                [p] if the bias is trained.
        """
        pairs = zip(weights, totals, strict=True)
        repeated = [w for w, sums in pairs for _ in sums]
        flat = [total for sums in totals for total in sums]
        self._maps.sums.add(self._gradients, repeated, flat)


def linear_gradients(x: Tensor, g: Tensor, *, bias: bool) -> LinearGradients:
    """Returns the per-sample gradients of y = x W^T + b, and their norms.

    Args:
        x: Inputs, [B, T, d].
        g: Gradients of the outputs, [B, T, p].  ``is_supported`` holds for x and g.
        bias: If True, the bias is trained.
    """
    maps = LinearMaps([LinearMap(x, g, bias)])
    return maps.products(range(len(x))).first_gradients()


def _dense(values: Tensor) -> Tensor:
    """Returns the values with a contiguous last dimension; a copy only if necessary."""
    return values if values.stride(2) == 1 else values.contiguous()

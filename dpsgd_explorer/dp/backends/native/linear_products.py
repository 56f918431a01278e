"""Gradients of linear maps, sample by sample, with their norms; of many maps at once.

Compiled from ``linear_products.c``, where that was done at install time and the
processor has AVX2.
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
from dpsgd_explorer.dp.backends.native.library import Loop, compiled_file, loop
from dpsgd_explorer.dp.backends.native.memory_pool import POOL
from dpsgd_explorer.dp.backends.native.weighted_sum import WeightedSums
from dpsgd_explorer.dp.backends.rounding import AROUND, gamma, underflow_bound

#: The library's name, as pyproject.toml has it, without the platform's suffix.
NAME = "_linear_products"
#: Multiply-adds from which a second thread is worth its start.
MANY = 10**7
#: Roundings of a squared norm: of 16 squares added in float32, and after it.
ROUNDINGS = 24
#: Covers what rounding takes off a squared norm that was computed on the way.
NORM_MARGIN = 1 + gamma(ROUNDINGS + AROUND, torch.float32)
#: As in the C file: outputs of a unit of work, and inputs of a panel.
UNIT, PANEL = 64, 16
#: Numbers in a line of a cache, where each gradient begins.
LINE = 16


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
        ("longer", ctypes.c_double),
    ]


@cache
def installed() -> Loop | None:
    """Return the function; None if it is not compiled, or not for this processor."""
    file = compiled_file(Path(__file__).parent, NAME)
    return None if file is None else loaded(file)


def loaded(file: Path) -> Loop | None:
    """Return the function of a compiled file; see ``library.loop``."""
    return loop(file, "linear_products", _Job, _Map)


def is_supported(x: Tensor, g: Tensor) -> bool:
    """Whether there is a function, and for such values."""
    return (
        x.dtype is g.dtype is torch.float32
        and x.is_cpu
        and g.is_cpu
        and g.shape[-1] > 0
        and installed() is not None
    )


class LinearMaps:
    """Linear maps of one batch, whose gradients are made and summed together.

    Args:
        maps: Those that ``is_supported`` holds for, of one batch size; at least one.
    """

    def __init__(self, maps: Sequence[LinearMap]) -> None:
        self._maps = [LinearMap(_dense(x), _dense(g), bias) for x, g, bias in maps]
        self._table = (_Map * len(maps))()
        self._columns = self._work = self._positions = 0
        sizes: list[int] = []
        before: list[int] = []
        numbers = 0
        for entry, (x, g, bias) in zip(self._table, self._maps, strict=True):
            (_, positions, inputs), outputs = x.shape, g.shape[2]
            for size in (outputs * inputs, outputs)[: 1 + bias]:
                sizes.append(size)
                before.append(numbers)
                numbers += -(-size // LINE) * LINE
            x_strides, g_strides = x.stride(), g.stride()
            entry.x, entry.g = x.data_ptr(), g.data_ptr()
            entry.positions, entry.inputs, entry.outputs = positions, inputs, outputs
            entry.x_sample, entry.x_position = x_strides[0], x_strides[1]
            entry.g_sample, entry.g_position = g_strides[0], g_strides[1]
            entry.weight, entry.bias = before[-1 - bias], before[-1] if bias else -1
            entry.column = self._columns
            self._columns += -(-outputs // UNIT)
            self._work += positions * inputs * outputs
            self._positions = max(self._positions, positions)
        self._numbers = numbers
        #: What underflow may take off the squared norms of the longest gradient.
        self._underflow = underflow_bound(numbers, torch.float32)
        self.sums = WeightedSums(sizes, before)

    @property
    def first(self) -> LinearMap:
        """The first map."""
        return self._maps[0]

    @property
    def batch_size(self) -> int:
        """B."""
        return len(self.first.inputs)

    def products(self, samples: range) -> MadeProducts:
        """Return the gradients of some samples by all maps, and their norms.

        Args:
            samples: Consecutive samples.
        """
        compiled = installed()
        assert compiled is not None
        count, rows, columns = len(self._maps), len(samples), self._columns
        gradients = POOL.empty(rows * self._numbers)
        norms = torch.empty(count, rows)
        threads = team.useful_threads(rows * columns, rows * self._work, MANY)
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
        return MadeProducts(self, gradients, norms)


class MadeProducts:
    """Gradients of some samples, by all of several maps.

    Attributes:
        squared_norms: Of each map's weight and bias together, [maps, B].
    """

    def __init__(
        self, maps: LinearMaps, gradients: Tensor, squared_norms: Tensor
    ) -> None:
        self.squared_norms = squared_norms
        self._maps, self._gradients = maps, gradients

    def of_first(self) -> LinearGradients:
        """Return the gradients by the first map."""
        x, g, bias = self._maps.first
        samples = self.squared_norms.shape[1]
        rows = self._maps.sums.rows(self._gradients, samples)
        weight = next(rows).view(samples, g.shape[2], x.shape[2])
        norms = self.squared_norms[0]
        return LinearGradients(weight, next(rows) if bias else None, norms)

    def add_weighted(
        self, weights: Sequence[Tensor], totals: Sequence[Sequence[Tensor]]
    ) -> None:
        """Add sum_i weights[m][i] * gradient_i of each map m to its totals.

        Args:
            weights: [B] of each map.
            totals: Those of the weight [p, d], and of the bias [p] if it is trained.
        """
        of_each = [w for w, own in zip(weights, totals, strict=True) for _ in own]
        flat = [total for own in totals for total in own]
        self._maps.sums.add(self._gradients, of_each, flat)


def linear_gradients(x: Tensor, g: Tensor, *, bias: bool) -> LinearGradients:
    """Return the gradients of y = x W^T + b for each sample, and their norms.

    Args:
        x: Inputs, [B, T, d].
        g: Gradients of the outputs, [B, T, p].  ``is_supported`` holds for both.
        bias: If True, the bias has a gradient.
    """
    maps = LinearMaps([LinearMap(x, g, bias)])
    return maps.products(range(len(x))).of_first()


def _dense(values: Tensor) -> Tensor:
    """Return values whose last dimension lies in one piece."""
    return values if values.stride(2) == 1 else values.contiguous()

"""The backend of CPUs: compiled loops for float32, if a compiler was found at install.

Each method uses its loop if the loop is compiled, the processor has AVX2 and the loop
supports the tensors.  Otherwise it calls torch's operations.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from dpsgd_explorer.dp.backends.box_muller import BoxMuller
from dpsgd_explorer.dp.backends.convolution import Convolution, SampleGradients
from dpsgd_explorer.dp.backends.linear import (
    JoinedMaps,
    LinearGradients,
    LinearMap,
    OuterProductCall,
    WeightedCall,
)
from dpsgd_explorer.dp.backends.lstm import Steps
from dpsgd_explorer.dp.backends.native import (
    box_muller,
    convolution,
    linear_products,
    lstm_steps,
    outer_products,
    weighted_sum,
)
from dpsgd_explorer.dp.backends.rounding import EXTRA_ROUNDINGS, gamma
from dpsgd_explorer.dp.backends.torch import Norms, TorchBackend

#: Factor that makes a computed product of two sums of squares an upper bound.
_OUTER_MARGIN = 1 + gamma(2 * outer_products.ROUNDINGS + EXTRA_ROUNDINGS, torch.float32)


class NativeBackend(TorchBackend):
    """Compiled loops for float32, torch's operations for all other tensors."""

    def _add_rows(self, rows: Tensor, weights: Tensor, total: Tensor) -> None:
        if weighted_sum.is_supported(rows, weights, total):
            weighted_sum.add_weighted_sum(rows, weights, total)
        else:
            super()._add_rows(rows, weights, total)

    def sum_of(self, values: Sequence[Tensor]) -> Tensor:
        if len(values) == 1:
            return values[0]
        added = outer_products.add_rows(values)
        return super().sum_of(values) if added is None else added[0]

    def roots_of_sums(self, squares: Sequence[Tensor]) -> Norms:
        added = outer_products.add_rows(squares, roots=True)
        return super().roots_of_sums(squares) if added is None else Norms(*added)

    def outer_product_norms(
        self, calls: Sequence[OuterProductCall], scale: float = 1.0
    ) -> Sequence[Tensor]:
        if all(map(outer_products.is_supported, calls)):
            return outer_products.squared_norms(calls, _OUTER_MARGIN * scale**2)
        return super().outer_product_norms(calls, scale)

    def add_outer_products(self, calls: Sequence[WeightedCall], scale: float) -> None:
        compiled: list[WeightedCall] = []
        others: list[WeightedCall] = []
        for call in calls:
            is_supported = outer_products.is_sum_supported(call)
            (compiled if is_supported else others).append(call)
        if compiled:
            outer_products.add_weighted(compiled, scale)
        if others:
            super().add_outer_products(others, scale)

    def linear_gradients(
        self, x: Tensor, g: Tensor, *, weight: bool, bias: bool
    ) -> LinearGradients:
        if weight and linear_products.is_supported(x, g):
            return linear_products.linear_gradients(x, g, bias=bias)
        return super().linear_gradients(x, g, weight=weight, bias=bias)

    def can_join(self, linear_map: LinearMap) -> bool:
        return linear_products.is_supported(linear_map.inputs, linear_map.backprops)

    def join(self, maps: Sequence[LinearMap]) -> JoinedMaps:
        return linear_products.LinearMaps(maps)

    def convolution_gradients(
        self, x: Tensor, g: Tensor, layer: Convolution, sides: Sequence[int] = ()
    ) -> SampleGradients:
        if convolution.is_supported(x, g, layer):
            return convolution.gradients(x, g, layer, sides)
        return super().convolution_gradients(x, g, layer, sides)

    def lstm_steps(self, gates: Tensor) -> Steps:
        if lstm_steps.is_supported(gates):
            return lstm_steps.CompiledSteps(gates)
        return super().lstm_steps(gates)

    def add_normals(
        self,
        values: Tensor,
        bits: Tensor,
        scale: float,
        shift: float,
        divisor: float,
        transform: BoxMuller,
    ) -> float:
        compiled = box_muller.installed() if box_muller.is_supported(values) else None
        if compiled is not None:
            return compiled(values, bits, scale, shift, divisor)
        return super().add_normals(values, bits, scale, shift, divisor, transform)

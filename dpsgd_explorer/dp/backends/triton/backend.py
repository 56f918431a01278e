"""The backend of CUDA devices: Triton's kernels for float32 and bfloat16.

Triton is part of torch's builds for CUDA.  A call from Python takes as long as the work
of a small layer on the device, so norms and weighted sums of all layers take a few
calls together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from dpsgd_explorer.dp.backends.asynchronous import AsyncBackend
from dpsgd_explorer.dp.backends.precision import in_precision
from dpsgd_explorer.dp.backends.rounding import EXTRA_ROUNDINGS, gamma, underflow_bound
from dpsgd_explorer.dp.backends.sample_rows import sample_rows
from dpsgd_explorer.dp.backends.triton import rows as kernels
from dpsgd_explorer.dp.backends.triton.noise import DeviceNoise

#: Factor that makes a squared norm of the kernel an upper bound.
NORM_MARGIN = 1 + gamma(kernels.ROUNDINGS + EXTRA_ROUNDINGS, torch.float32)


class TritonBackend(AsyncBackend):
    """Triton's kernels for float32 and bfloat16, torch's operations for the rest."""

    joins_layers: ClassVar[bool] = True

    def squared_norms(self, gradients: Sequence[Tensor]) -> Tensor:
        rows = [sample_rows(gradient) for gradient in gradients]
        if kernels.is_supported(*rows):
            norms = kernels.squared_norms(rows, NORM_MARGIN)
            max_size = max(values.shape[1] for values in rows)
            return norms.add_(underflow_bound(max_size, norms.dtype))
        return super().squared_norms(gradients)

    def add_weighted(
        self,
        gradients: Sequence[Tensor],
        weights: Sequence[Tensor],
        totals: Sequence[Tensor],
    ) -> None:
        pairs = zip(weights, totals, strict=True)
        weights = [in_precision(w, total.dtype) for w, total in pairs]
        if kernels.is_supported(*gradients, *weights, *totals):
            kernels.add_weighted_sums(gradients, weights, totals)
        else:
            super().add_weighted(gradients, weights, totals)

    def _add_rows(self, rows: Tensor, weights: Tensor, total: Tensor) -> None:
        if kernels.is_supported(rows, weights, total):
            kernels.add_weighted_sums([rows], [weights], [total])
        else:
            super()._add_rows(rows, weights, total)

    def layer_norm_sums(
        self,
        x: Tensor,
        g: Tensor,
        shape: tuple[int, int, int],
        eps: float,
        *,
        centred: bool,
    ) -> tuple[Tensor, Tensor] | None:
        if kernels.is_supported(x, g):
            return kernels.layer_norm_sums(
                x.view(shape), g.view(shape), eps, centred=centred
            )
        return super().layer_norm_sums(x, g, shape, eps, centred=centred)

    def draws_noise(self, values: Tensor) -> bool:
        return values.dtype is torch.float32 and kernels.is_supported(values)

    def noise_source(self) -> DeviceNoise:
        return DeviceNoise()

"""The tensor operations of a private step, by torch: the definition of a backend.

A backend computes what a private step needs beyond forward and backward: squared norms
of per-sample gradients, their weighted sum, the gradients of linear maps and
convolutions, the steps of an LSTM, and normal numbers on a sum.  This one runs on every
device and defines the results.  ``native`` and ``triton`` override methods with kernels
for float32 on a CPU and for CUDA devices, and call it where a kernel does not take
the tensors.  Their norms and sums agree with these up to rounding; no squared norm of
any backend is too small.

Notation: B samples, T positions, d inputs, p outputs; x inputs of a layer, g gradients
of its outputs, w clipping factors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple, Protocol

import torch
from torch import Tensor

from dpsgd_explorer.dp.backends import convolution
from dpsgd_explorer.dp.backends.box_muller import BoxMuller
from dpsgd_explorer.dp.backends.convolution import Convolution, SampleGradients
from dpsgd_explorer.dp.backends.linear import (
    JoinedMaps,
    LinearGradients,
    LinearMap,
    OuterProductCall,
    WeightedCall,
)
from dpsgd_explorer.dp.backends.lstm import Steps, TorchSteps
from dpsgd_explorer.dp.backends.precision import in_precision
from dpsgd_explorer.dp.backends.rounding import lengths, lengths_of, underflow_bound
from dpsgd_explorer.dp.backends.sample_rows import memory_order, sample_rows

#: Bytes of instantiated gradients in memory at once.  A ``nn.Linear(784, 256)`` takes
#: 803,840 per sample: 20 samples fit, and 256 are clipped in 12 pieces of 22 or less.
CHUNK_BYTES = 16 * 2**20
#: Entries of a clipped sum that are measured, noised and divided at once: half a MiB,
#: in cache.
CHUNK_ENTRIES = 2**17


class Norms(NamedTuple):
    """Norms of samples.

    Attributes:
        values: [B].
        are_finite: If all are; None if that was not looked at.
    """

    values: Tensor
    are_finite: bool | None = None


class NoiseSource(Protocol):
    """Adds normal numbers from a secret key, on the device of the values."""

    def add_normals(self, values: Tensor, scale: float, shift: float) -> None:
        """Add normal numbers to [P] and round to a grid; see ``BoxMuller``."""


class TorchBackend:
    """Torch's operations.

    Attributes:
        is_async: If True, reading a value waits for all work of the device.
        joins_layers: If True, ``squared_norms`` and ``add_weighted`` take one call for
            the gradients of all layers in less time than one call per layer.
        chunk_entries: Entries of a sum that are noised at once.
    """

    is_async: ClassVar[bool] = False
    joins_layers: ClassVar[bool] = False
    chunk_entries: ClassVar[int] = CHUNK_ENTRIES

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def chunk_bytes(self, device: torch.device) -> int:
        """Return the bytes of instantiated gradients that may be in memory at once."""
        return CHUNK_BYTES

    def leave_out(self, values: Tensor, weights: Tensor) -> Tensor:
        """Return [B, ...] such that samples of weight 0 add nothing to a weighted sum.

        Here samples that are not finite are removed before a sum, so nothing is done.
        """
        return values

    def as_computed(self, values: Tensor) -> Tensor:
        """Return an input of a product in the precision that is stored of it.

        Here norms and sums are computed of float32 numbers, also under autocast.
        """
        return values

    # -- rows of numbers: gradients [B, *shape] as they are

    def squared_norms(self, gradients: Sequence[Tensor]) -> Tensor:
        """Return the squared norms of n gradients [B, *shape], [n, B]; never too small.

        The gradients have one B, dtype and device.
        """
        norms = [lengths(sample_rows(each)).square_() for each in gradients]
        return torch.stack(norms) if len(norms) > 1 else norms[0].unsqueeze(0)

    def add_weighted(
        self,
        gradients: Sequence[Tensor],
        weights: Sequence[Tensor],
        totals: Sequence[Tensor],
    ) -> None:
        """Add sum_i w_i g_i to the total of each gradient, in place.

        Args:
            gradients: [B, *shape] each.
            weights: w, [B] for each gradient.
            totals: [*shape] each, contiguous.
        """
        for gradient, own, total in zip(gradients, weights, totals, strict=True):
            self._add_weighted(gradient, in_precision(own, total.dtype), total)

    def _add_weighted(self, gradient: Tensor, weights: Tensor, total: Tensor) -> None:
        if gradient.is_contiguous():
            self._add_rows(sample_rows(gradient), weights, total.view(-1))
            return
        gradient = self.leave_out(gradient, weights)
        # Whole runs are copied next to where they belong: added from there, entry by
        # entry, they are in cache.  For 256 channels a kernel of 3 by 3 takes 0.6 ms,
        # not 2.2.
        order = memory_order(gradient)
        inner = order[-1]
        near = [*sorted(order[:-1]), inner]
        if len(gradient) == 1:  # a product instead of a sum: one pass less
            runs = gradient[0].permute([d - 1 for d in near])
            row = runs.new_empty(runs.shape, dtype=total.dtype)
            torch.mul(runs, weights, out=row)
        else:
            ordered = gradient.permute(0, *order)
            summed = ordered.new_zeros(ordered.shape[1:], dtype=total.dtype)
            self._add_rows(ordered.flatten(1), weights, summed.view(-1))
            row = summed.permute([order.index(d) for d in near]).contiguous()
        total.add_(row.movedim(-1, inner - 1))

    def _add_rows(self, rows: Tensor, weights: Tensor, total: Tensor) -> None:
        """Add sum_i w_i rows[i] of contiguous rows [B, P] to ``total``, [P]."""
        kept = in_precision(self.leave_out(rows, weights), total.dtype)
        total.addmv_(kept.t(), weights)

    def sum_of(self, values: Sequence[Tensor]) -> Tensor:
        """Return the sum of tensors of one shape, added in float64 and rounded once."""
        if len(values) == 1:
            return values[0]
        stacked = torch.stack(list(values))
        return stacked.sum(0, dtype=torch.float64).to(values[0].dtype)

    def roots_of_sums(self, squares: Sequence[Tensor]) -> Norms:
        """Return the roots of sums of squared norms [B], added as by ``sum_of``."""
        return Norms(self.sum_of(squares).sqrt())

    # -- linear maps and convolutions

    def outer_product_norms(
        self, calls: Sequence[OuterProductCall], scale: float = 1.0
    ) -> Sequence[Tensor]:
        """Return ||s g x^T||^2 + ||s g||^2 of n calls of one kind, n times [B].

        Small layers cost more in calls than in arithmetic, so the norms of all of them
        are multiplied together.

        Args:
            calls: n calls of one ``kind``.
            scale: s.
        """
        norms = lengths_of([x for x, _ in calls] + [g for _, g in calls])
        of_bias = norms[len(calls) :]
        of_weight = norms[: len(calls)].mul_(of_bias)
        # The bias adds a 1 to x: hypot cannot overflow.
        squares = torch.hypot(of_weight, of_bias, out=of_weight).square_()
        if scale != 1.0:
            squares.mul_(scale**2)
        return squares.add_(underflow_bound(1, squares.dtype)).unbind(0)

    def add_outer_products(self, calls: Sequence[WeightedCall], scale: float) -> None:
        """Add sum_i s w_i g_i x_i^T and sum_i s w_i g_i to the sums of each call.

        Args:
            calls: The calls, of one B.
            scale: s.
        """
        for (x, g), weights, weight, bias in calls:
            factors = (weights * scale).to(weight.dtype)
            x, g = self.leave_out(x, factors), self.leave_out(g, factors)
            scaled = g * factors.unsqueeze(1)
            weight.addmm_(scaled.t(), x)
            bias.add_(scaled.sum(0))

    def linear_gradients(
        self, x: Tensor, g: Tensor, *, weight: bool, bias: bool
    ) -> LinearGradients:
        """Return the gradients of y = x W^T + b for every sample.

        Args:
            x: Inputs, [B, T, d].
            g: Gradients of the outputs, [B, T, p].
            weight: If True, the weight is trained.
            bias: If True, the bias is trained; one of the two is.
        """
        of_weight = torch.bmm(g.transpose(1, 2), x) if weight else None
        of_bias = g.sum(1) if bias else None
        return LinearGradients(of_weight, of_bias, None)

    def can_join(self, linear_map: LinearMap) -> bool:
        """Return True if ``join`` takes this map, and that saves time."""
        return False

    def join(self, maps: Sequence[LinearMap]) -> JoinedMaps:
        """Return linear maps as one table, whose gradients take one call.

        Args:
            maps: Maps of one B, each accepted by ``can_join``.
        """
        raise NotImplementedError(f"{self!r} joins no linear maps.")

    def convolution_gradients(
        self, x: Tensor, g: Tensor, layer: Convolution, sides: Sequence[int] = ()
    ) -> SampleGradients:
        """Return the gradients of a convolution's weight for every sample.

        Args:
            x: Inputs, [B, C, *size].
            g: Gradients of the outputs, [B, p, *positions].
            layer: Kernel size, stride, dilation and groups.
            sides: Zeros to put around each sample, as ``F.pad`` counts them.
        """
        return SampleGradients(convolution.gradients(x, g, layer, sides), None)

    # -- recurrent and normalisation layers, embeddings

    def lstm_steps(self, gates: Tensor) -> Steps:
        """Return an object that runs an LSTM's cell forward and back.

        Args:
            gates: The inputs' map, [T, B, 4 H], contiguous; overwritten.
        """
        return TorchSteps(gates)

    def layer_norm_sums(
        self,
        x: Tensor,
        g: Tensor,
        shape: tuple[int, int, int],
        eps: float,
        *,
        centred: bool,
    ) -> tuple[Tensor, Tensor] | None:
        """Return the gradients of a layer norm's weight and bias, [B, D] each.

        None if there is no kernel; the rule standardises the inputs then.

        Args:
            x: Inputs, [B, ..., D].
            g: Gradients of the outputs, [B, ..., D].
            shape: (B, T, D), the shape as which both are read.
            eps: Added to the variance.
            centred: If True, the mean is subtracted.
        """
        return None

    def distinct(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return the distinct ids [P] of ids [n], and the index of each in them, [n].

        On an asynchronous device P = n, and the last ids may be any.
        """
        found, where = torch.unique(ids, return_inverse=True)
        return found, where

    # -- noise

    def add_normals(
        self,
        values: Tensor,
        bits: Tensor,
        scale: float,
        shift: float,
        divisor: float,
        by_torch: BoxMuller,
    ) -> float:
        """Add normal numbers to [P], round to a grid and divide; see ``BoxMuller``.

        Args:
            values: float32 or float64 [P].
            bits: Random bits for P numbers.
            scale: Factor of the radii.
            shift: 1.5 / eps steps of the grid.
            divisor: Divisor of the sums on the grid.
            by_torch: The transform with buffers of the caller.  Two callers that shared
                them could draw the same noise in two threads.

        Returns:
            The squared norm of the values before.
        """
        return by_torch.add_normals(values, bits, scale, shift, divisor)

    def draws_noise(self, values: Tensor) -> bool:
        """Return True if noise on these values is drawn by ``noise_source``."""
        return False

    def noise_source(self) -> NoiseSource:
        """Return a source of noise with a secret key of its own, on the device."""
        raise NotImplementedError(f"{self!r} draws no noise on the device.")

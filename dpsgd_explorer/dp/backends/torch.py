"""The tensor operations of a private step with torch; defines each backend's results.

A backend computes everything that a private step needs in addition to forward and
backward: squared norms of per-sample gradients, weighted sums of them, gradients of
linear maps and convolutions, steps of an LSTM, and normal noise on a sum.  The backend
of this module runs on every device.  ``native`` (float32 on a CPU) and ``triton`` (CUDA
devices) override methods with kernels, and call ``super()`` for tensors that a kernel
does not support.  Norms and sums of all backends agree up to rounding, and no squared
norm is too small.

Notation: B samples, T positions, d inputs, p outputs; x inputs of a layer, g gradients
of the layer's outputs, w clipping factors.
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
from dpsgd_explorer.dp.backends.rounding import row_norms, underflow_bound, vector_norms
from dpsgd_explorer.dp.backends.sample_rows import memory_order, sample_rows

#: Bytes of the per-sample gradients of one chunk.  A ``nn.Linear(784, 256)`` takes
#: 803,840 per sample: 20 samples fit, and 256 are clipped in 12 chunks of at most 22.
CHUNK_BYTES = 16 * 2**20
#: Entries of a clipped sum that are measured, noised and divided together: half a MiB,
#: which stays in cache.
CHUNK_ENTRIES = 2**17


class Norms(NamedTuple):
    """Norms of samples.

    Attributes:
        values: [B].
        are_finite: If True, all norms are finite; None if this was not checked.
    """

    values: Tensor
    are_finite: bool | None = None


class NoiseSource(Protocol):
    """Normal numbers from a secret key, generated on the device of the values."""

    def add_normals(self, values: Tensor, scale: float, shift: float) -> None:
        """Adds normal numbers to [P] and rounds to a grid; see ``BoxMuller``."""


class TorchBackend:
    """The operations with torch, on any device.

    Attributes:
        is_async: If True, reading a value waits for all queued work of the device.
        joins_layers: If True, one call of ``squared_norms`` or ``add_weighted`` for the
            gradients of all layers is faster than one call per layer.
        chunk_entries: Entries of a sum that get their noise in one call.
    """

    is_async: ClassVar[bool] = False
    joins_layers: ClassVar[bool] = False
    chunk_entries: ClassVar[int] = CHUNK_ENTRIES

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def chunk_bytes(self, device: torch.device) -> int:
        """Returns the maximum size of the per-sample gradients of one chunk."""
        return CHUNK_BYTES

    def leave_out(self, values: Tensor, weights: Tensor) -> Tensor:
        """Returns [B, ...] such that samples of weight 0 add nothing to a weighted sum.

        This backend returns the values unchanged, since callers remove samples that are
        not finite before they compute a sum.
        """
        return values

    def as_computed(self, values: Tensor) -> Tensor:
        """Returns an input of a product with the dtype that is stored for backward.

        This backend returns it unchanged: also under autocast, norms and sums are
        computed from float32 numbers.
        """
        return values

    # -- instantiated gradients, [B, *shape]

    def squared_norms(self, gradients: Sequence[Tensor]) -> Tensor:
        """Returns the squared norms of n gradients, [n, B], never too small.

        Args:
            gradients: [B, *shape], with one B, dtype and device.
        """
        norms = [vector_norms(sample_rows(values)).square_() for values in gradients]
        return torch.stack(norms) if len(norms) > 1 else norms[0].unsqueeze(0)

    def add_weighted(
        self,
        gradients: Sequence[Tensor],
        weights: Sequence[Tensor],
        totals: Sequence[Tensor],
    ) -> None:
        """Adds sum_i w_i g_i to the total of each gradient, in place.

        Args:
            gradients: [B, *shape] each.
            weights: w, [B] for each gradient.
            totals: [*shape] each, contiguous.
        """
        for gradient, w, total in zip(gradients, weights, totals, strict=True):
            self._add_weighted(gradient, in_precision(w, total.dtype), total)

    def _add_weighted(self, gradient: Tensor, weights: Tensor, total: Tensor) -> None:
        if gradient.is_contiguous():
            self._add_rows(sample_rows(gradient), weights, total.view(-1))
            return
        gradient = self.leave_out(gradient, weights)
        # The gradient's memory order differs from the weight's.  First all dimensions
        # but the innermost get the weight's order, which moves contiguous runs.
        # The last permutation then reads entries that are in cache.  With 256 channels
        # and a 3 by 3 kernel this takes 0.6 ms instead of 2.2.
        order = memory_order(gradient)
        inner = order[-1]
        outer_sorted = [*sorted(order[:-1]), inner]
        if len(gradient) == 1:  # A product replaces the sum, which saves one pass.
            runs = gradient[0].permute([d - 1 for d in outer_sorted])
            row = runs.new_empty(runs.shape, dtype=total.dtype)
            torch.mul(runs, weights, out=row)
        else:
            ordered = gradient.permute(0, *order)
            summed = ordered.new_zeros(ordered.shape[1:], dtype=total.dtype)
            self._add_rows(ordered.flatten(1), weights, summed.view(-1))
            row = summed.permute([order.index(d) for d in outer_sorted]).contiguous()
        total.add_(row.movedim(-1, inner - 1))

    def _add_rows(self, rows: Tensor, weights: Tensor, total: Tensor) -> None:
        """Adds sum_i w_i rows[i] of contiguous rows [B, P] to ``total``, [P]."""
        kept = in_precision(self.leave_out(rows, weights), total.dtype)
        total.addmv_(kept.t(), weights)

    def sum_of(self, values: Sequence[Tensor]) -> Tensor:
        """Returns the sum of tensors of one shape: added in float64, rounded once."""
        if len(values) == 1:
            return values[0]
        stacked = torch.stack(list(values))
        return stacked.sum(0, dtype=torch.float64).to(values[0].dtype)

    def roots_of_sums(self, squares: Sequence[Tensor]) -> Norms:
        """Returns the square roots of ``sum_of`` n squared norms, [B] each."""
        return Norms(self.sum_of(squares).sqrt())

    # -- linear maps and convolutions

    def outer_product_norms(
        self, calls: Sequence[OuterProductCall], scale: float = 1.0
    ) -> Sequence[Tensor]:
        """Returns ||s g x^T||^2 + ||s g||^2 of n calls, n tensors [B], never too small.

        Small layers spend more time in calls than in arithmetic, so all calls share the
        operations after the norms.

        Args:
            calls: n calls with equal ``kind``.
            scale: s.
        """
        norms = row_norms([x for x, _ in calls] + [g for _, g in calls])
        of_bias = norms[len(calls) :]
        of_weight = norms[: len(calls)].mul_(of_bias)
        # The bias adds a 1 to x: the root of ||g||^2 (||x||^2 + 1).
        squares = torch.hypot(of_weight, of_bias, out=of_weight).square_()
        if scale != 1.0:
            squares.mul_(scale**2)
        return squares.add_(underflow_bound(1, squares.dtype)).unbind(0)

    def add_outer_products(self, calls: Sequence[WeightedCall], scale: float) -> None:
        """Adds sum_i s w_i g_i x_i^T and sum_i s w_i g_i to the sums of each call.

        Args:
            calls: Calls with one B.
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
        """Returns the per-sample gradients of y = x W^T + b.

        Args:
            x: Inputs, [B, T, d].
            g: Gradients of the outputs, [B, T, p].
            weight: If True, the weight is trained.
            bias: If True, the bias is trained; at least one of both must be.
        """
        of_weight = torch.bmm(g.transpose(1, 2), x) if weight else None
        of_bias = g.sum(1) if bias else None
        return LinearGradients(of_weight, of_bias, None)

    def can_join(self, linear_map: LinearMap) -> bool:
        """Returns True if ``join`` supports this map and saves time."""
        return False

    def join(self, maps: Sequence[LinearMap]) -> JoinedMaps:
        """Returns linear maps as one table, whose gradients take one call.

        Args:
            maps: Maps with one B; ``can_join`` holds for each.

        Raises:
            NotImplementedError: ``can_join`` holds for no map.
        """
        raise NotImplementedError(f"{self!r} joins no linear maps.")

    def convolution_gradients(
        self, x: Tensor, g: Tensor, layer: Convolution, sides: Sequence[int] = ()
    ) -> SampleGradients:
        """Returns the per-sample gradients of a convolution's weight.

        Args:
            x: Inputs, [B, C, *size].
            g: Gradients of the outputs, [B, p, *positions].
            layer: Kernel size, stride, dilation and groups.
            sides: Widths of the zero padding of each sample, in the order of ``F.pad``.
        """
        return SampleGradients(convolution.gradients(x, g, layer, sides), None)

    # -- recurrent and normalisation layers, embeddings

    def lstm_steps(self, gates: Tensor) -> Steps:
        """Returns an object that runs an LSTM cell forward and backward.

        Args:
            gates: Linear map of the inputs, [T, B, 4 H], contiguous; overwritten.
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
        """Returns the per-sample gradients of a layer norm's weight and bias.

        Args:
            x: Inputs, [B, ..., D].
            g: Gradients of the outputs, [B, ..., D].
            shape: (B, T, D); the kernel reads both with this shape.
            eps: Added to the variance.
            centred: If True, the mean is subtracted (layer norm); else not (RMS norm).

        Returns:
            [B, D] each; None if there is no kernel, and the rule must standardize the
            inputs.
        """
        return None

    def distinct(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the distinct ids, [P], and the index of each id in them, [n].

        An asynchronous backend returns n entries; after the distinct ids they are
        arbitrary.

        Args:
            ids: Integers, [n].
        """
        distinct, index = torch.unique(ids, return_inverse=True)
        return distinct, index

    # -- noise

    def add_normals(
        self,
        values: Tensor,
        bits: Tensor,
        scale: float,
        shift: float,
        divisor: float,
        transform: BoxMuller,
    ) -> float:
        """Adds normal numbers to [P], rounds to a grid and divides; see ``BoxMuller``.

        Args:
            values: float32 or float64 [P], overwritten.
            bits: Random bits for P numbers.
            scale: Factor of the radii.
            shift: 1.5 / eps steps of the grid.
            divisor: Divides the rounded values.
            transform: The caller's transform with torch.  Two threads must not share
                its buffers, because both could then add equal noise.

        Returns:
            The squared norm of the values before the noise.
        """
        return transform.add_normals(values, bits, scale, shift, divisor)

    def draws_noise(self, values: Tensor) -> bool:
        """Returns True if noise on these values comes from ``noise_source``."""
        return False

    def noise_source(self) -> NoiseSource:
        """Returns a source of noise with a new secret key, on the device.

        Raises:
            NotImplementedError: ``draws_noise`` holds for no values.
        """
        raise NotImplementedError(f"{self!r} draws no noise on the device.")

"""Sums the clipped gradients of a logical batch, and releases the sum with noise."""

from __future__ import annotations

import math
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor, nn

from dpsgd_explorer.dp.backends import backend_of
from dpsgd_explorer.dp.backends.full_precision import full_precision
from dpsgd_explorer.dp.backends.precision import accumulation_dtype
from dpsgd_explorer.dp.clipping.clipper import Clipper
from dpsgd_explorer.dp.distributed.ranks import ALONE, Ranks
from dpsgd_explorer.dp.engines.base import GradientSums, PerSampleGradients
from dpsgd_explorer.dp.noise.base import Noise
from dpsgd_explorer.errors import PrivacyError

Parameters = Mapping[str, Mapping[str, nn.Parameter]]
#: {layer: factors [B]}; layers of one group share a tensor.
Factors = dict[str, Tensor]


class ClippedSum:
    """Sums clipped gradients in one flat buffer per dtype and device.

    The buffer becomes the noisy gradient in place, so that clipping and noise together
    cost the memory of one gradient.

    Args:
        parameters: {layer: {local name: parameter}}.
        clipper: Gives the factor of each sample.
        ranks: The processes whose sums are added at the release.

    Attributes:
        sums: {layer: {local name: view of the buffer}}.
        size: Number of samples since the reset, on this rank.
        numel: Number of trainable parameters.
        norms: Gradient norms before clipping since the reset, [B] of each chunk.  The
            norm of a sample that was left out is not finite.  Not private.
        factors: {layer: factors [B]} of each chunk.  A sample that was left out is
            missing, or has the factor 1.  Not private.
        squares: Squared norms of the chunks of the last sum, before noise.  Not
            private.
    """

    def __init__(
        self, parameters: Parameters, clipper: Clipper, ranks: Ranks = ALONE
    ) -> None:
        self.clipper = clipper
        self.ranks = ranks
        self._parameters = parameters
        self._begin_buffers()
        self.squares: list[Tensor | float] = []
        self.norms: list[Tensor] = []
        self.factors: list[Factors] = []
        self.size = 0
        self.numel = sum(p.numel() for p in self.parameters)

    def _begin_buffers(self) -> None:
        self._chunks = [
            chunk
            for flat in self._allocate()
            for chunk in torch.split(flat, backend_of(flat).chunk_entries)
        ]
        self._totals = [
            (parameter, self.sums[layer][name])
            for layer, parameters in self._parameters.items()
            for name, parameter in parameters.items()
        ]
        self._views = [total for _, total in self._totals]
        self._storages = [flat.untyped_storage() for flat in self._flats]
        self._initial_references = self._references()

    def _references(self) -> list[int]:
        """Returns the numbers of references to views, buffers and their memory."""
        tensors = [*self._views, *self._flats]
        return [
            *map(sys.getrefcount, tensors),
            *map(Tensor._use_count, tensors),  # type: ignore[attr-defined]
            *map(weakref.getweakrefcount, tensors),
            *map(sys.getrefcount, self._storages),
            *map(weakref.getweakrefcount, self._storages),
            *[torch._C._storage_Use_Count(memory._cdata) for memory in self._storages],
        ]

    def _allocate(self) -> Iterator[Tensor]:
        """Allocates the buffers; returns the slices to which this rank adds noise."""
        self._flats, self.sums, sizes = allocate(
            self._parameters, _whole_shape, self.ranks
        )
        return map(self.ranks.slice_of, self._flats, sizes)

    def reset(self) -> None:
        """Starts a logical batch."""
        # The buffers contain the released gradients.  An optimizer or a user with a
        # reference to one of them would read the next sum there, before its noise.
        if self._references() == self._initial_references:
            for flat in self._flats:
                flat.zero_()
        else:
            self._begin_buffers()
        self.norms, self.factors = [], []
        self.size = 0

    def add(self, samples: PerSampleGradients) -> None:
        """Clips every sample and adds it.

        A sample whose gradient is not finite is left out: it contributes 0.

        Raises:
            PrivacyError: a parameter has another dtype or device than its sum.
        """
        for parameter, total in self._totals:
            dtype = parameter.dtype
            is_same = dtype is total.dtype or accumulation_dtype(dtype) is total.dtype
            if not is_same or parameter.device != total.device:
                raise PrivacyError(
                    "parameters must keep their dtype and device while an engine is "
                    f"attached: gradients are summed as {total.dtype} on "
                    f"{total.device}, got a parameter of {parameter.dtype} on "
                    f"{parameter.device}. Call engine.detach() before double(), half() "
                    "or to(), and attach() afterwards."
                )
        # A product rounded to bfloat16 could make a clipped gradient longer than C.
        with full_precision():
            self._add(samples)

    def _add(self, samples: PerSampleGradients) -> None:
        whole, chunks = samples.split()
        whole_norms = {} if whole is None else whole.squared_norms()
        clipped, start = [], 0
        for chunk in chunks:
            rows = slice(start, start := start + len(chunk))
            squared = chunk.squared_norms()
            if whole_norms:
                squared = _added(squared, whole_norms, rows)
            finite, factors = self._clip(squared, leaves_out=samples.leaves_out)
            if finite is not None:
                chunk, finite = chunk.take(finite), finite + rows.start
            chunk.add_weighted(factors, self.sums)
            clipped.append((finite, factors, rows))
        if whole is not None:
            index, factors = _joined(clipped)
            whole = whole if index is None else whole.take(index)
            whole.add_weighted(factors, self.sums)

    def _clip(
        self, squared: dict[str, Tensor], *, leaves_out: bool
    ) -> tuple[Tensor | None, Factors]:
        """Returns the samples to add, None for all samples, and their factors.

        Args:
            squared: {layer: squared norms [B]}.
            leaves_out: If True, a factor of 0 leaves a sample out.
        """
        norms, are_finite = self.clipper.measured_norms(squared)
        self.norms.append(norms)
        self.size += norms.shape[0]
        if leaves_out and backend_of(norms).is_async:
            return None, self._factors_of_finite(squared, norms)
        finite = None
        if are_finite is None:
            # One number shows that all are finite.  The sum itself may overflow, so the
            # rows decide then.
            are_finite = math.isfinite(float(norms.sum()))
        if not are_finite:
            finite = torch.isfinite(norms).nonzero().squeeze(1)
            norms = norms[finite]
            squared = {layer: values[finite] for layer, values in squared.items()}
        factors = self.clipper.factors(squared, norms)
        self.factors.append(factors)
        return finite, factors

    def _factors_of_finite(self, squared: Factors, norms: Tensor) -> Factors:
        """Returns the factors, 0 for samples whose gradient is not finite."""
        finite = torch.isfinite(norms)
        factors = self.clipper.factors(squared, norms)
        distinct = {id(factor): factor for factor in factors.values()}
        counted = {key: f.where(finite, 1.0) for key, f in distinct.items()}
        added = {key: f.where(finite, 0.0) for key, f in distinct.items()}
        self.factors.append({layer: counted[id(f)] for layer, f in factors.items()})
        return {layer: added[id(f)] for layer, f in factors.items()}

    @property
    def parameters(self) -> Iterator[nn.Parameter]:
        """The parameters whose gradients are summed."""
        return (p for layer in self._parameters.values() for p in layer.values())

    def release(
        self, noise: Noise | None, standard_deviation: float, divisor: float
    ) -> dict[nn.Parameter, Tensor]:
        """Returns {parameter: (sum + noise) / divisor}, in the memory of the sum.

        The sum includes the samples of all ranks.  Each rank adds noise to a slice.

        Args:
            noise: Source of the noise; None adds none.
            standard_deviation: Standard deviation of the noise on each entry of the
                sum, in units of the gradient.
            divisor: A public constant.
        """
        if not self.ranks.is_alone:
            self._add_up()
        self.squares = []
        for chunk in self._chunks:
            if noise is None:
                square: Tensor | float = torch.dot(chunk, chunk)
                chunk.div_(divisor)
            else:
                square = noise.add_to(chunk, standard_deviation, divisor)
            self.squares.append(square)
        if not self.ranks.is_alone:
            self._gather()
            self.squares = [*self.ranks.total(sum(map(float, self.squares)))]
        return {
            parameter: self._gradient(parameter, total)
            for parameter, total in self._totals
        }

    def _add_up(self) -> None:
        """Replaces the slices of this rank by their sums over the ranks."""
        for flat in self._flats:
            self.ranks.add_up(flat)

    def _gather(self) -> None:
        """Replaces the slices of the other ranks by the results of those ranks."""
        for flat in self._flats:
            self.ranks.gather(flat)

    def _gradient(self, parameter: nn.Parameter, released: Tensor) -> Tensor:
        """Returns the gradient of a parameter for the optimizer."""
        dtype = parameter.dtype
        return released if released.dtype is dtype else released.to(dtype)


def _added(squared: Factors, whole: Factors, rows: slice) -> Factors:
    """Returns {layer: squared norms} of a chunk, with its rows of the whole part."""
    total = dict(squared)
    for layer, norms in whole.items():
        part = norms[rows]
        total[layer] = total[layer] + part if layer in total else part
    return total


def _joined(
    clipped: list[tuple[Tensor | None, Factors, slice]],
) -> tuple[Tensor | None, Factors]:
    """Returns the finite samples of all chunks, None for all, and their factors."""
    joined: dict[int, Tensor] = {}
    factors = {}
    for layer, first in clipped[0][1].items():  # layers of one group share a tensor
        if id(first) not in joined:
            parts = [chunk_factors[layer] for _, chunk_factors, _ in clipped]
            joined[id(first)] = torch.cat(parts)
        factors[layer] = joined[id(first)]
    if all(finite is None for finite, _, _ in clipped):
        return None, factors
    index = [
        torch.arange(rows.start, rows.stop, device=first.device)
        if finite is None
        else finite
        for finite, _, rows in clipped
    ]
    return torch.cat(index), factors


def _whole_shape(parameter: nn.Parameter) -> torch.Size:
    return parameter.shape


def allocate(
    parameters: Parameters,
    shape_of: Callable[[nn.Parameter], torch.Size],
    ranks: Ranks,
) -> tuple[list[Tensor], GradientSums, list[int]]:
    """Returns flat buffers of zeros, their views, and the numbers of used entries.

    Args:
        parameters: {layer: {local name: parameter}}.
        shape_of: Returns the shape of a parameter's view.
        ranks: The processes.  Each buffer can be split into one slice per rank, all of
            one size.
    """
    sizes: dict[tuple[torch.dtype, torch.device], int] = {}
    for p in (p for layer in parameters.values() for p in layer.values()):
        kind = accumulation_dtype(p.dtype), p.device
        sizes[kind] = sizes.get(kind, 0) + shape_of(p).numel()
    flats = {
        (dtype, device): torch.zeros(ranks.padded(size), dtype=dtype, device=device)
        for (dtype, device), size in sizes.items()
    }
    unused = dict(flats)
    sums: dict[str, dict[str, Tensor]] = {}
    for layer, layer_parameters in parameters.items():
        sums[layer] = {}
        for name, p in layer_parameters.items():
            kind, shape = (accumulation_dtype(p.dtype), p.device), shape_of(p)
            sums[layer][name] = unused[kind][: shape.numel()].view(shape)
            unused[kind] = unused[kind][shape.numel() :]
    return list(flats.values()), sums, list(sizes.values())

"""The sum of a logical batch's clipped gradients, and its one release with noise."""

from __future__ import annotations

import math
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

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


class Tally(NamedTuple):
    """Statistics of clipping over a logical batch.  Not private.

    Attributes:
        norms: Gradient norms before clipping, [B]; not finite where left out.
        factors: {layer: factors [B]} of parts of the batch; what was left out is
            missing, or has 1.
    """

    norms: Tensor
    factors: list[Factors]

    @property
    def non_finite(self) -> int:
        """Number of samples left out."""
        return len(self.norms) - int(torch.isfinite(self.norms).sum())

    def shortened(self) -> int:
        """Return the number of samples with a factor below 1 in some group."""
        return sum(_shortened(part.values()) for part in self.factors)


class ClippedSum:
    """Sums clipped gradients in one flat buffer per dtype and device.

    The buffer becomes the noisy gradient in place, so that clipping and noise together
    cost the memory of one gradient.

    Args:
        parameters: {layer: {local name: parameter}}.
        clipper: Gives the factor of each sample.
        ranks: The processes whose sums are added up at the release.

    Attributes:
        sums: {layer: {local name: view of the buffer}}.
        size: Number of samples since the reset, on this rank.
        numel: Number of trainable parameters.
        squares: Of the last released sum before its noise: parts of its squared norm.
            Not private.
    """

    def __init__(
        self, parameters: Parameters, clipper: Clipper, ranks: Ranks = ALONE
    ) -> None:
        self.clipper = clipper
        self.ranks = ranks
        self._parameters = parameters
        self._begin_buffers()
        self.squares: list[Tensor | float] = []
        self._norms: list[Tensor] = []
        self._factors: list[Factors] = []
        self.size = 0
        self.numel = sum(p.numel() for p in self.parameters)

    def _begin_buffers(self) -> None:
        own = self._allocate()
        self._pieces = [piece for flat in own for piece in _chunks(flat)]
        self._totals = [
            (parameter, self.sums[layer][local])
            for layer, own in self._parameters.items()
            for local, parameter in own.items()
        ]
        self._views = [total for _, total in self._totals]
        self._storages = [flat.untyped_storage() for flat in self._flats]
        self._own_references = self._references()

    def _references(self) -> list[int]:
        """Return how often views, buffers and their memory are held, weakly too."""
        tensors = [*self._views, *self._flats]
        return [
            *map(sys.getrefcount, tensors),
            *map(Tensor._use_count, tensors),  # type: ignore[attr-defined]
            *map(weakref.getweakrefcount, tensors),
            *map(sys.getrefcount, self._storages),
            *map(weakref.getweakrefcount, self._storages),
            *[torch._C._storage_Use_Count(each._cdata) for each in self._storages],
        ]

    def _allocate(self) -> Iterator[Tensor]:
        """Make the buffers; return the slices that get this rank's noise."""
        self._flats, self.sums, sizes = allocate(
            self._parameters, _whole_shape, self.ranks
        )
        return map(self.ranks.slice_of, self._flats, sizes)

    def reset(self) -> None:
        """Start a logical batch."""
        # Released gradients are in the buffers.  An optimizer or a user that holds one
        # of them without a copy would read the next sum there, before its noise.
        if self._references() == self._own_references:
            for flat in self._flats:
                flat.zero_()
        else:
            self._begin_buffers()
        self._norms, self._factors = [], []
        self.size = 0

    def add(self, samples: PerSampleGradients) -> None:
        """Clip every sample and add it.

        A sample whose gradient is not finite is left out: it contributes 0.

        Raises:
            PrivacyError: a parameter has another dtype or device than its sum.
        """
        for parameter, total in self._totals:
            if not _fits(parameter, total):
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
        whole, pieces = samples.split()
        whole_norms = {} if whole is None else whole.squared_norms()
        clipped, start = [], 0
        for piece in pieces:
            rows = slice(start, start := start + len(piece))
            squared = _added(piece.squared_norms(), whole_norms, rows)
            finite, factors = self._clip(squared, leaves_out=samples.leaves_out)
            if finite is not None:
                piece, finite = piece.take(finite), finite + rows.start
            piece.add_weighted(factors, self.sums)
            clipped.append((finite, factors, rows))
        if whole is not None:
            index, factors = _joined(clipped)
            whole = whole if index is None else whole.take(index)
            whole.add_weighted(factors, self.sums)

    def _clip(
        self, squared: dict[str, Tensor], *, leaves_out: bool
    ) -> tuple[Tensor | None, Factors]:
        """Return the samples to be added, None for all, and their factors.

        Args:
            squared: {layer: squared norms [B]}.
            leaves_out: Whether a factor of 0 leaves a sample out.
        """
        norms, are_finite = self.clipper.measured_norms(squared)
        self._norms.append(norms)
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
        self._factors.append(factors)
        return finite, factors

    def _factors_of_finite(self, squared: Factors, norms: Tensor) -> Factors:
        """Return the factors, 0 for samples whose gradient is not finite."""
        finite = torch.isfinite(norms)
        factors = self.clipper.factors(squared, norms)
        distinct = {id(own): own for own in factors.values()}
        counted = {key: own.where(finite, 1.0) for key, own in distinct.items()}
        added = {key: own.where(finite, 0.0) for key, own in distinct.items()}
        self._factors.append({layer: counted[id(f)] for layer, f in factors.items()})
        return {layer: added[id(own)] for layer, own in factors.items()}

    def tally(self) -> Tally:
        """Return the statistics since the reset."""
        norms = self._norms or [torch.empty(0)]
        return Tally(norms[0] if len(norms) == 1 else torch.cat(norms), self._factors)

    @property
    def parameters(self) -> Iterator[nn.Parameter]:
        """The parameters whose gradients are summed."""
        return (p for own in self._parameters.values() for p in own.values())

    def norm(self) -> float:
        """Return the norm of this rank's sum without noise.  Not private."""
        return math.hypot(*[float(torch.linalg.vector_norm(f)) for f in self._flats])

    def release(
        self, noise: Noise | None, standard_deviation: float, divisor: float
    ) -> dict[nn.Parameter, Tensor]:
        """Return {parameter: (sum + noise) / divisor}; the sum itself is overwritten.

        The sum is that over all ranks, and each adds noise to its slice of it.

        Args:
            noise: Source of the noise; None adds none.
            standard_deviation: Standard deviation of the noise on each entry of the
                sum, in units of the gradient.
            divisor: A public constant.
        """
        self._add_up()
        self.squares = []
        for piece in self._pieces:
            if noise is None:
                square: Tensor | float = torch.dot(piece, piece)
                piece.div_(divisor)
            else:
                square = noise.add_to(piece, standard_deviation, divisor)
            self.squares.append(square)
        self._gather()
        if not self.ranks.is_alone:
            own = sum(map(float, self.squares))
            self.squares = [*self.ranks.total(own)]
        return {
            parameter: self._gradient(parameter, total)
            for parameter, total in self._totals
        }

    def _add_up(self) -> None:
        """Replace this rank's slices by their sums over the ranks."""
        for flat in self._flats:
            self.ranks.add_up(flat)

    def _gather(self) -> None:
        """Replace the other ranks' slices by theirs."""
        for flat in self._flats:
            self.ranks.gather(flat)

    def _gradient(self, parameter: nn.Parameter, released: Tensor) -> Tensor:
        """Return what the optimizer takes as the gradient of a parameter."""
        dtype = parameter.dtype
        return released if released.dtype is dtype else released.to(dtype)


def _added(squared: Factors, whole: Factors, rows: slice) -> Factors:
    """Return {layer: squared norms} of a piece, with its rows of the whole part."""
    total = dict(squared)
    for layer, norms in whole.items():
        part = norms[rows]
        total[layer] = total[layer] + part if layer in total else part
    return total


def _joined(
    clipped: list[tuple[Tensor | None, Factors, slice]],
) -> tuple[Tensor | None, Factors]:
    """Return the finite samples of all pieces, None for all, and their factors."""
    joined: dict[int, Tensor] = {}
    factors = {}
    for layer, first in clipped[0][1].items():  # layers of one group share a tensor
        if id(first) not in joined:
            parts = [piece_factors[layer] for _, piece_factors, _ in clipped]
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


def _shortened(factors: Iterable[Tensor]) -> int:
    """Return the number of samples with a factor below 1 in some group."""
    distinct = list({id(factor): factor for factor in factors}.values())
    smallest = distinct[0] if len(distinct) == 1 else torch.stack(distinct).amin(0)
    return int(torch.count_nonzero(smallest < 1.0))


def _chunks(flat: Tensor) -> Sequence[Tensor]:
    return torch.split(flat, backend_of(flat).chunk_entries)


def _whole_shape(parameter: nn.Parameter) -> torch.Size:
    return parameter.shape


def _fits(parameter: Tensor, total: Tensor) -> bool:
    """Return True if gradients of the parameter can be added to the sum."""
    if parameter.device != total.device:
        return False
    dtype = parameter.dtype
    return dtype is total.dtype or accumulation_dtype(dtype) is total.dtype


def allocate(
    parameters: Parameters,
    shape_of: Callable[[nn.Parameter], torch.Size],
    ranks: Ranks,
) -> tuple[list[Tensor], GradientSums, list[int]]:
    """Return zeroed flat buffers, their views, one per parameter, and what they use.

    Args:
        parameters: {layer: {local name: parameter}}.
        shape_of: Returns the shape of a parameter's view.
        ranks: Each buffer can be split into as many equal slices.
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
        for local, p in layer_parameters.items():
            kind, shape = (accumulation_dtype(p.dtype), p.device), shape_of(p)
            sums[layer][local] = unused[kind][: shape.numel()].view(shape)
            unused[kind] = unused[kind][shape.numel() :]
    return list(flats.values()), sums, list(sizes.values())

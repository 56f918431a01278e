"""The sum of a logical batch's clipped gradients, and its one release with noise."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from dpsgd_explorer.dp.clipping.clipper import Clipper
from dpsgd_explorer.dp.engines.base import GradientSums, PerSampleGradients
from dpsgd_explorer.dp.kernels.full_precision import full_precision
from dpsgd_explorer.dp.kernels.precision import accumulation_dtype
from dpsgd_explorer.dp.noise.base import Noise

#: Entries that are measured, noised and divided before the next: half a MiB.
AT_ONCE = 2**17

Parameters = Mapping[str, Mapping[str, nn.Parameter]]
Factors = dict[str, Tensor]


class Tally(NamedTuple):
    """What clipping saw of a logical batch.  Not private.

    Attributes:
        norms: Gradient norms before clipping, [B]; not finite where left out.
        shortened: Samples whose factor was below 1.
        non_finite: Samples that were left out.
    """

    norms: Tensor
    shortened: int
    non_finite: int


class ClippedSum:
    """Adds up clipped gradients in one flat buffer for each kind of parameter.

    The buffer becomes the noisy gradient in place, so that all of clipping and noise
    costs the memory of one gradient.

    Attributes:
        sums: {layer: {local name: view of the buffer}}.
        size: Samples seen since the reset.
        numel: Number of trainable parameters.
        signal: Norm of the last released sum before its noise.  Not private.
    """

    def __init__(self, parameters: Parameters, clipper: Clipper) -> None:
        self.clipper = clipper
        self._flats, self.sums = _allocate(parameters)
        self._pieces = [p for flat in self._flats for p in torch.split(flat, AT_ONCE)]
        self.signal = 0.0
        self._parameters = parameters
        self._norms: list[Tensor] = []
        self.size = self._shortened = self._non_finite = 0
        self.numel = sum(flat.numel() for flat in self._flats)

    def reset(self) -> None:
        """Start a logical batch."""
        for flat in self._flats:
            flat.zero_()
        self._norms = []
        self.size = self._shortened = self._non_finite = 0

    def add(self, samples: PerSampleGradients) -> None:
        """Clip every sample and add it.

        A sample whose gradient is not finite is left out; what it contributes is 0.
        """
        with full_precision():
            self._add(samples)

    def _add(self, samples: PerSampleGradients) -> None:
        whole, pieces = samples.split_by_memory()
        known = {} if whole is None else whole.squared_norms()
        clipped, start = [], 0
        for piece in pieces:
            rows = slice(start, start := start + len(piece))
            squared = _added(piece.squared_norms(), known, rows)
            kept, factors = self._clip(squared)
            if kept is not None:
                piece, kept = piece.take(kept), kept + rows.start
            piece.add_weighted_gradients(factors, self.sums)
            clipped.append((kept, factors, rows))
        if whole is not None:
            index, factors = _joined(clipped)
            whole = whole if index is None else whole.take(index)
            whole.add_weighted_gradients(factors, self.sums)

    def _clip(self, squared: dict[str, Tensor]) -> tuple[Tensor | None, Factors]:
        """Return which samples are kept, None for all, and {layer: their factors}."""
        norms = self.clipper.norms(squared)
        self._norms.append(norms)
        self.size += norms.shape[0]
        kept = None
        # One number tells that all are finite; a sum may also overflow.
        if not math.isfinite(float(norms.sum())):
            kept = torch.isfinite(norms).nonzero().squeeze(1)
            self._non_finite += len(norms) - len(kept)
            norms = norms[kept]
            squared = {layer: values[kept] for layer, values in squared.items()}
        factors = self.clipper.factors(squared, norms)
        self._shortened += _shortened(factors.values())
        return kept, factors

    def tally(self) -> Tally:
        """Return what was seen since the reset."""
        norms = self._norms or [torch.empty(0)]
        every = norms[0] if len(norms) == 1 else torch.cat(norms)
        return Tally(every, self._shortened, self._non_finite)

    def norm(self) -> float:
        """Return the norm of the sum without noise.  Not private."""
        return math.hypot(*[float(torch.linalg.vector_norm(f)) for f in self._flats])

    def release(
        self, noise: Noise | None, standard_deviation: float, divisor: float
    ) -> dict[nn.Parameter, Tensor]:
        """Return {parameter: (sum + noise) / divisor} and forget the sum.

        Piece by piece, so that each stays in cache for all that is done to it.

        Args:
            noise: Where the noise comes from; None for none at all.
            standard_deviation: Of the noise on each entry of the sum.
            divisor: A public constant.
        """
        squared = 0.0
        for piece in self._pieces:
            squared += float(torch.dot(piece, piece))
            if noise is not None:
                noise.add_to(piece, standard_deviation)
            piece.div_(divisor)
        self.signal = math.sqrt(squared)
        return {
            parameter: self.sums[layer][local].to(parameter.dtype)
            for layer, own in self._parameters.items()
            for local, parameter in own.items()
        }


def _added(own: Factors, known: Factors, rows: slice) -> Factors:
    """Return {layer: squared norms} of a piece, with what is known of its rows."""
    total = dict(own)
    for layer, norms in known.items():
        part = norms[rows]
        total[layer] = total[layer] + part if layer in total else part
    return total


def _joined(
    clipped: list[tuple[Tensor | None, Factors, slice]],
) -> tuple[Tensor | None, Factors]:
    """Return which samples of all pieces are kept, None for all, and the factors."""
    joined: dict[int, Tensor] = {}
    factors = {}
    for layer, first in clipped[0][1].items():  # layers of one block share a tensor
        if id(first) not in joined:
            joined[id(first)] = torch.cat([each[layer] for _, each, _ in clipped])
        factors[layer] = joined[id(first)]
    if all(kept is None for kept, _, _ in clipped):
        return None, factors
    every = [
        torch.arange(rows.start, rows.stop, device=first.device)
        if kept is None
        else kept
        for kept, _, rows in clipped
    ]
    return torch.cat(every), factors


def _shortened(factors: Iterable[Tensor]) -> int:
    """Count the samples with a factor below 1 in some block."""
    blocks = list({id(factor): factor for factor in factors}.values())
    smallest = blocks[0] if len(blocks) == 1 else torch.stack(blocks).amin(0)
    return int((smallest < 1.0).sum())


def _allocate(parameters: Parameters) -> tuple[list[Tensor], GradientSums]:
    """Return zeroed flat buffers and their views, one a parameter."""
    every = [p for own in parameters.values() for p in own.values()]
    sizes: dict[tuple[torch.dtype, torch.device], int] = {}
    for p in every:
        kind = accumulation_dtype(p.dtype), p.device
        sizes[kind] = sizes.get(kind, 0) + p.numel()
    flats = {
        (dtype, device): torch.zeros(size, dtype=dtype, device=device)
        for (dtype, device), size in sizes.items()
    }
    rest = dict(flats)
    sums: dict[str, dict[str, Tensor]] = {}
    for layer, own in parameters.items():
        sums[layer] = {}
        for local, p in own.items():
            kind = accumulation_dtype(p.dtype), p.device
            sums[layer][local] = rest[kind][: p.numel()].view(p.shape)
            rest[kind] = rest[kind][p.numel() :]
    return list(flats.values()), sums

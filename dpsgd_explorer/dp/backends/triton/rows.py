"""Norms and weighted sums of all layers' gradients at once, on a device with Triton.

A call from Python takes a device as long as the work of a small layer, so the gradients
of all layers are one table, and a piece of the batch takes a few calls: the norms of a
model, or its weighted sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from importlib.util import find_spec
from typing import Any, NamedTuple

import torch
from torch import Tensor

#: Most roundings of a sum of squares: of the square, 8 and 7 in turn in a lane, 7 over
#: the lanes, and the total's.
ROUNDINGS = 24
#: Dtypes of what is read; sums are float32.
DTYPES = (torch.float32, torch.bfloat16)
#: Numbers of which a load may take several, and the bytes that it begins at.
AT_ONCE, ALIGNMENT = 8, 16


@cache
def installed() -> bool:
    """Whether there is a compiler for kernels."""
    return find_spec("triton") is not None


def is_supported(*tensors: Tensor) -> bool:
    """Return True if the kernels take such tensors, which are on one device."""
    return all(t.is_contiguous() and t.dtype in DTYPES for t in tensors)


class Kind(NamedTuple):
    """What a kernel is compiled for.

    Attributes:
        dtype: Of the rows.
        aligned: Whether each row begins where several numbers are read at once.
    """

    dtype: torch.dtype
    aligned: bool

    @property
    def constants(self) -> dict[str, Any]:
        """Constants of the kernels."""
        from dpsgd_explorer.dp.backends.triton import row_kernels as kernels

        return {
            "DTYPE": kernels.DTYPES[self.dtype],
            "ALIGNED": self.aligned,
            "CHUNK": kernels.CHUNK,
            "BLOCK": kernels.BLOCK,
        }


def squared_norms(rows: Sequence[Tensor], longer: float) -> Tensor:
    """Return squared norms of [B, ...] each, times ``longer``, float32 [n, B].

    Before that factor each has ROUNDINGS roundings.

    Args:
        rows: As ``is_supported`` takes them.
        longer: Factor.
    """
    from dpsgd_explorer.dp.backends.triton import row_kernels as kernels

    samples, device = len(rows[0]), rows[0].device
    norms = torch.empty(len(rows), samples, device=device)
    for kind, places in _kinds(rows):
        own = [rows[place] for place in places]
        sizes = _sizes(own)
        chunks, starts = _chunks(sizes, device)
        count = len(chunks)
        sums = norms.new_empty(samples, count)
        found = norms if len(own) == len(rows) else norms.new_empty(len(own), samples)
        if samples and count:
            entries = [(x.data_ptr(), 0, 0, n) for x, n in zip(own, sizes, strict=True)]
            kernels.square_sums[(samples * count,)](
                *(_table(entries, device), chunks, sums, count), **kind.constants
            )
        if samples:
            kernels.sums_of_chunks[(samples * len(own),)](
                *(sums, starts, found, samples, count, longer),
                AT_ONCE=kernels.CHUNKS_AT_ONCE,
            )
        if found is not norms:
            norms[_index(tuple(places), device)] = found
    return norms


def add_weighted_sums(
    rows: Sequence[Tensor], weights: Sequence[Tensor], totals: Sequence[Tensor]
) -> None:
    """Add sum_i weights[i] rows[i] to each total, leaving out rows of weight 0.

    Args:
        rows: [B, ...] each, as ``is_supported`` takes them.
        weights: Contiguous float32 [B] each.
        totals: Contiguous float32 [...] each.

    Raises:
        TypeError: what is read or written by its address is not float32.
    """
    dtypes = {values.dtype for values in (*weights, *totals)}
    if dtypes != {torch.float32}:
        raise TypeError(
            "weights and totals on an accelerator must have dtype float32, got "
            f"{', '.join(sorted(map(str, dtypes)))}. Give all layers of the module one "
            "precision."
        )
    from dpsgd_explorer.dp.backends.triton import row_kernels as kernels

    samples, device = len(rows[0]), rows[0].device
    for kind, places in _kinds(rows):
        sizes = _sizes([rows[place] for place in places])
        chunks, _ = _chunks(sizes, device)
        entries = [
            (rows[i].data_ptr(), weights[i].data_ptr(), totals[i].data_ptr(), size)
            for i, size in zip(places, sizes, strict=True)
        ]
        if samples and len(chunks):
            kernels.weighted_sums[(len(chunks),)](
                *(_table(entries, device), chunks, samples),
                **kind.constants,
                AT_ONCE=kernels.ROWS_AT_ONCE,
            )


def _kinds(rows: Sequence[Tensor]) -> Iterable[tuple[Kind, list[int]]]:
    """Return each kind, and the places of its tensors."""
    found: dict[Kind, list[int]] = {}
    for place, each in enumerate(rows):
        found.setdefault(_kind(each), []).append(place)
    return found.items()


def _kind(rows: Tensor) -> Kind:
    aligned = not (rows.data_ptr() % ALIGNMENT or rows.shape[1:].numel() % AT_ONCE)
    return Kind(rows.dtype, aligned)


def _sizes(rows: Sequence[Tensor]) -> tuple[int, ...]:
    return tuple([each.shape[1:].numel() for each in rows])


def _table(entries: Sequence[tuple[int, ...]], device: torch.device) -> Tensor:
    """Return a table on a device, without waiting for it."""
    table = torch.tensor(entries, dtype=torch.int64)
    if device.type == "cpu":
        return table
    return table.pin_memory().to(device, non_blocking=True)


@lru_cache(maxsize=256)
def _chunks(sizes: tuple[int, ...], device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the chunks of tensors of such rows, and where each tensor's begin.

    Shapes: int32 [chunks, 2], each one's tensor and its place there; int32 [n + 1].
    """
    from dpsgd_explorer.dp.backends.triton import row_kernels as kernels

    counts = torch.tensor([-(-size // kernels.CHUNK) for size in sizes])
    tensors = torch.arange(len(sizes)).repeat_interleave(counts)
    starts = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])
    places = torch.arange(len(tensors)) - starts[tensors]
    chunks = torch.stack([tensors, places], 1).int()
    return chunks.contiguous().to(device), starts.int().to(device)


@lru_cache(maxsize=256)
def _index(places: tuple[int, ...], device: torch.device) -> Tensor:
    return torch.tensor(places, device=device)


def layer_norm_sums(
    x: Tensor, g: Tensor, eps: float, *, centred: bool
) -> tuple[Tensor, Tensor]:
    """Return sums over positions of g xhat and of g, float32 [B, D] each.

    Args:
        x: Inputs, contiguous [B, T, D].
        g: Gradients of the outputs, contiguous [B, T, D].
        eps: Added to the variance.
        centred: Whether the mean is taken off, as by a layer norm.
    """
    from dpsgd_explorer.dp.backends.triton import row_kernels as kernels

    samples, positions, entries = x.shape
    chunks = max(1, -(-positions // kernels.POSITIONS))
    sums = x.new_empty(chunks, 2, samples, entries, dtype=torch.float32)
    if samples:
        kernels.layer_norm_sums[samples, chunks](
            *(x, g, sums, positions, entries, eps),
            CENTRED=centred,
            POSITIONS=kernels.POSITIONS,
            ROWS=kernels.ROWS,
            ENTRIES=1 << (entries - 1).bit_length(),
        )
    of_weight, of_bias = sums.sum(0)
    return of_weight, of_bias

"""Norms and weighted sums of the gradients of all layers, on a device with Triton.

A call from Python takes as long as the work of a small layer on the device.  Therefore
one table has the addresses of all layers' gradients, and the norms or the weighted sums
of a whole model take a few calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from importlib.util import find_spec
from typing import Any, NamedTuple

import torch
from torch import Tensor

#: Roundings of a sum of squares, at most: 1 of the square, 8 and then 7 additions in a
#: lane, 7 additions across lanes, and 1 of the total.
ROUNDINGS = 24
#: Dtypes that the kernels read.  Sums are float32.
DTYPES = (torch.float32, torch.bfloat16)
#: Rows are aligned, and read several numbers per load, if each row begins at a multiple
#: of ALIGNMENT_BYTES: the first row does, and the row's size is a multiple of
#: ALIGNMENT_NUMBERS, which are 16 bytes in bfloat16.
ALIGNMENT_BYTES, ALIGNMENT_NUMBERS = 16, 8


@cache
def is_installed() -> bool:
    """Returns True if Triton, which compiles the kernels, is installed."""
    return find_spec("triton") is not None


def is_supported(*tensors: Tensor) -> bool:
    """Returns True if the kernels support these tensors of one device."""
    return all(t.is_contiguous() and t.dtype in DTYPES for t in tensors)


class Specialization(NamedTuple):
    """Properties of rows for which a kernel is compiled.

    Attributes:
        dtype: Dtype of the rows.
        aligned: If True, rows are aligned; see ``ALIGNMENT_BYTES``.
    """

    dtype: torch.dtype
    aligned: bool

    @property
    def constants(self) -> dict[str, Any]:
        """Compile-time constants of the kernels."""
        from dpsgd_explorer.dp.backends.triton import row_kernels as kernels

        return {
            "DTYPE": kernels.DTYPES[self.dtype],
            "ALIGNED": self.aligned,
            "CHUNK": kernels.CHUNK_ENTRIES,
            "BLOCK": kernels.BLOCK_ENTRIES,
        }


def squared_norms(rows: Sequence[Tensor], factor: float) -> Tensor:
    """Returns factor * squared norms of n gradients, float32 [n, B].

    A squared norm has at most ROUNDINGS roundings.

    Args:
        rows: [B, ...] each; ``is_supported`` holds for them.
        factor: Factor of all norms.
    """
    from dpsgd_explorer.dp.backends.triton import row_kernels as kernels

    samples, device = len(rows[0]), rows[0].device
    norms = torch.empty(len(rows), samples, device=device)
    for specialization, indices in _by_specialization(rows):
        selected = [rows[i] for i in indices]
        sizes = _sizes(selected)
        chunks, starts = _chunks(sizes, device)
        count = len(chunks)
        sums = norms.new_empty(samples, count)
        are_all = len(selected) == len(rows)
        target = norms if are_all else norms.new_empty(len(selected), samples)
        if samples and count:
            pairs = zip(selected, sizes, strict=True)
            entries = [(x.data_ptr(), 0, 0, size) for x, size in pairs]
            kernels.square_sums[(samples * count,)](
                *(_table(entries, device), chunks, sums, count),
                **specialization.constants,
            )
        if samples:
            kernels.sums_of_chunks[(samples * len(selected),)](
                *(sums, starts, target, samples, count, factor),
                CHUNKS=kernels.CHUNKS_PER_LOAD,
            )
        if target is not norms:
            norms[_index(tuple(indices), device)] = target
    return norms


def add_weighted_sums(
    rows: Sequence[Tensor], weights: Sequence[Tensor], totals: Sequence[Tensor]
) -> None:
    """Adds sum_i weights[i] rows[i] to each total, without the rows of weight 0.

    Args:
        rows: [B, ...] each; ``is_supported`` holds for them.
        weights: Contiguous float32 [B] each.
        totals: Contiguous float32 [...] each.

    Raises:
        TypeError: A weight or total is not float32.
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
    for specialization, indices in _by_specialization(rows):
        sizes = _sizes([rows[i] for i in indices])
        chunks, _ = _chunks(sizes, device)
        entries = [
            (rows[i].data_ptr(), weights[i].data_ptr(), totals[i].data_ptr(), size)
            for i, size in zip(indices, sizes, strict=True)
        ]
        if samples and len(chunks):
            kernels.weighted_sums[(len(chunks),)](
                *(_table(entries, device), chunks, samples),
                **specialization.constants,
                ROWS=kernels.ROWS_PER_LOAD,
            )


def _by_specialization(
    rows: Sequence[Tensor],
) -> Iterable[tuple[Specialization, list[int]]]:
    """Returns each specialization that the tensors need, and the tensors' indices."""
    indices: dict[Specialization, list[int]] = {}
    for index, values in enumerate(rows):
        indices.setdefault(_specialization(values), []).append(index)
    return indices.items()


def _specialization(rows: Tensor) -> Specialization:
    size = rows.shape[1:].numel()
    aligned = not (rows.data_ptr() % ALIGNMENT_BYTES or size % ALIGNMENT_NUMBERS)
    return Specialization(rows.dtype, aligned)


def _sizes(rows: Sequence[Tensor]) -> tuple[int, ...]:
    return tuple([values.shape[1:].numel() for values in rows])


def _table(entries: Sequence[tuple[int, ...]], device: torch.device) -> Tensor:
    """Copies a table to a device, without waiting for the device."""
    table = torch.tensor(entries, dtype=torch.int64)
    if device.type == "cpu":
        return table
    return table.pin_memory().to(device, non_blocking=True)


@lru_cache(maxsize=256)
def _chunks(sizes: tuple[int, ...], device: torch.device) -> tuple[Tensor, Tensor]:
    """Returns the chunks of the rows of n tensors.

    Args:
        sizes: Entries per row of each tensor.
        device: Device of the results.

    Returns:
        For each chunk the number of its tensor and its number in that tensor's rows,
        int32 [chunks, 2]; and the first chunk of each tensor, int32 [n + 1].
    """
    from dpsgd_explorer.dp.backends.triton import row_kernels as kernels

    counts = torch.tensor([-(-size // kernels.CHUNK_ENTRIES) for size in sizes])
    tensors = torch.arange(len(sizes)).repeat_interleave(counts)
    starts = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])
    numbers = torch.arange(len(tensors)) - starts[tensors]
    chunks = torch.stack([tensors, numbers], 1).int()
    return chunks.contiguous().to(device), starts.int().to(device)


@lru_cache(maxsize=256)
def _index(indices: tuple[int, ...], device: torch.device) -> Tensor:
    return torch.tensor(indices, device=device)


def layer_norm_sums(
    x: Tensor, g: Tensor, eps: float, *, centred: bool
) -> tuple[Tensor, Tensor]:
    """Returns sums over positions of g xhat and of g, float32 [B, D] each.

    Args:
        x: Inputs, contiguous [B, T, D].
        g: Gradients of the outputs, contiguous [B, T, D].
        eps: Added to the variance.
        centred: If True, the mean is subtracted (layer norm); else not (RMS norm).
    """
    from dpsgd_explorer.dp.backends.triton import row_kernels as kernels

    samples, positions, entries = x.shape
    chunks = max(1, -(-positions // kernels.PROGRAM_POSITIONS))
    sums = x.new_empty(chunks, 2, samples, entries, dtype=torch.float32)
    if samples:
        kernels.layer_norm_sums[samples, chunks](
            *(x, g, sums, positions, entries, eps),
            CENTRED=centred,
            POSITIONS=kernels.PROGRAM_POSITIONS,
            ROWS=kernels.POSITIONS_PER_LOAD,
            ENTRIES=1 << (entries - 1).bit_length(),
        )
    of_weight, of_bias = sums.sum(0)
    return of_weight, of_bias

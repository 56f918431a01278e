"""Norms and weighted sums of per-sample gradients, stored as one row per sample.

A kernel reads several tensors, the gradients of all layers.  A table has their
addresses.  Rows are divided into chunks, and a program has one chunk.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

#: {torch's dtype: Triton's}.
DTYPES = {torch.float32: tl.float32, torch.bfloat16: tl.bfloat16}
#: Entries of a row per chunk, and per load.
CHUNK_ENTRIES, BLOCK_ENTRIES = 8192, 1024
#: Rows per load of ``weighted_sums``.
ROWS_PER_LOAD = 4
#: Chunks per load of ``sums_of_chunks``.
CHUNKS_PER_LOAD = 256
#: Positions per program of ``layer_norm_sums``, and per load.
PROGRAM_POSITIONS, POSITIONS_PER_LOAD = 32, 4

# Columns of a table, with a row per tensor: the addresses of the rows [B, P], of the
# weights [B] and of the total [P], then P; and the number of columns.
_ROWS, _WEIGHTS, _TOTAL, _SIZE, _COLUMNS = (tl.constexpr(i) for i in (0, 1, 2, 3, 4))


@triton.jit
def _pointer(
    table, tensor, column: tl.constexpr, dtype: tl.constexpr, bytes: tl.constexpr = 1
):
    """Returns an address of the table, which is a multiple of ``bytes``."""
    address = tl.load(table + tensor * _COLUMNS + column)
    return tl.multiple_of(address.to(tl.pointer_type(dtype), bitcast=True), bytes)


@triton.jit
def _size(table, tensor, ALIGNED: tl.constexpr):
    """Returns the entries per row of a tensor."""
    size = tl.load(table + tensor * _COLUMNS + _SIZE)
    return tl.multiple_of(size, 8 if ALIGNED else 1)


@triton.jit(do_not_specialize=["count"])
def square_sums(
    table,
    chunks,
    sums,
    count,
    DTYPE: tl.constexpr,
    ALIGNED: tl.constexpr,
    CHUNK: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Writes the sum of squares of each chunk of each row, float32 [B, count].

    chunks: int32 [count, 2]: number of the tensor, and of the chunk in its rows.
    """
    sample, chunk = tl.program_id(0) // count, tl.program_id(0) % count
    tensor, index = tl.load(chunks + 2 * chunk), tl.load(chunks + 2 * chunk + 1)
    size = _size(table, tensor, ALIGNED)
    row = _pointer(table, tensor, _ROWS, DTYPE, 16 if ALIGNED else 1)
    row += sample * size
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, CHUNK, BLOCK):
        offsets = index.to(tl.int64) * CHUNK + start + tl.arange(0, BLOCK)
        values = tl.load(row + offsets, mask=offsets < size, other=0.0)
        values = values.to(tl.float32)
        squares += values * values
    tl.store(sums + tl.program_id(0), tl.sum(squares, 0))


@triton.jit(do_not_specialize=["samples", "count"])
def sums_of_chunks(sums, starts, norms, samples, count, factor, CHUNKS: tl.constexpr):
    """Writes factor times the sum of each tensor's chunks, float32 [n, B].

    sums: float32 [B, count].  starts: int32 [n + 1], the first chunk of each tensor.
    """
    tensor, sample = tl.program_id(0) // samples, tl.program_id(0) % samples
    start, stop = tl.load(starts + tensor), tl.load(starts + tensor + 1)
    row = sums + sample * count
    total = tl.zeros((CHUNKS,), tl.float64)
    for first in range(start, stop, CHUNKS):
        offsets = first + tl.arange(0, CHUNKS)
        squares = tl.load(row + offsets, mask=offsets < stop, other=0.0)
        total += squares.to(tl.float64)
    norm = (tl.sum(total, 0) * factor).to(tl.float32)
    tl.store(norms + tl.program_id(0), norm)


@triton.jit(do_not_specialize=["samples"])
def weighted_sums(
    table,
    chunks,
    samples,
    DTYPE: tl.constexpr,
    ALIGNED: tl.constexpr,
    CHUNK: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Adds sum_i weights[i] rows[i] to each float32 total, [P]; rows [B, P].

    A row of weight 0 is not read, so that its numbers need not be finite.
    """
    chunk = tl.program_id(0)
    tensor, index = tl.load(chunks + 2 * chunk), tl.load(chunks + 2 * chunk + 1)
    size = _size(table, tensor, ALIGNED)
    row = _pointer(table, tensor, _ROWS, DTYPE, 16 if ALIGNED else 1)
    weights = _pointer(table, tensor, _WEIGHTS, tl.float32)
    total = _pointer(table, tensor, _TOTAL, tl.float32)
    for start in range(0, CHUNK, BLOCK):
        offsets = index.to(tl.int64) * CHUNK + start + tl.arange(0, BLOCK)
        added = tl.zeros((BLOCK,), tl.float32)
        for first in range(0, samples, ROWS):
            rows = first + tl.arange(0, ROWS)
            weight = tl.load(weights + rows, mask=rows < samples, other=0.0)
            values = tl.load(
                row + (rows.to(tl.int64) * size)[:, None] + offsets[None, :],
                mask=(offsets < size)[None, :] & (weight != 0.0)[:, None],
                other=0.0,
            )
            added += tl.sum(weight[:, None] * values.to(tl.float32), 0)
        before = tl.load(total + offsets, mask=offsets < size, other=0.0)
        tl.store(total + offsets, before + added, mask=offsets < size)


@triton.jit(do_not_specialize=["eps"])
def layer_norm_sums(
    x,
    g,
    sums,
    positions,
    entries,
    eps,
    CENTRED: tl.constexpr,
    POSITIONS: tl.constexpr,
    ROWS: tl.constexpr,
    ENTRIES: tl.constexpr,
):
    """Writes sums of g xhat and g over chunks of positions, float32 [chunks, 2, B, D].

    x, g: [B, T, D].  xhat: x standardized over its D entries; if not CENTRED, the mean
    is not subtracted (RMS norm).
    """
    sample, chunk = tl.program_id(0), tl.program_id(1)
    lanes = tl.arange(0, ENTRIES)
    inside = lanes < entries
    of_weight = tl.zeros((ENTRIES,), tl.float32)
    of_bias = tl.zeros((ENTRIES,), tl.float32)
    for start in range(0, POSITIONS, ROWS):
        rows = chunk * POSITIONS + start + tl.arange(0, ROWS)
        starts = (sample.to(tl.int64) * positions + rows) * entries
        offsets = starts[:, None] + lanes[None, :]
        mask = (rows < positions)[:, None] & inside[None, :]
        values = tl.load(x + offsets, mask=mask, other=0.0).to(tl.float32)
        if CENTRED:
            mean = tl.sum(values, 1) / entries
            values = tl.where(mask, values - mean[:, None], 0.0)
        variance = tl.sum(values * values, 1) / entries
        values *= tl.rsqrt(variance + eps)[:, None]
        backprops = tl.load(g + offsets, mask=mask, other=0.0).to(tl.float32)
        of_weight += tl.sum(values * backprops, 0)
        of_bias += tl.sum(backprops, 0)
    samples = tl.num_programs(0)
    output = sums + (chunk.to(tl.int64) * 2 * samples + sample) * entries
    tl.store(output + lanes, of_weight, mask=inside)
    tl.store(output + samples * entries + lanes, of_bias, mask=inside)

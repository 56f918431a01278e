"""Sums over gradients that are stored as one row of numbers a sample."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

#: torch's dtype -> Triton's.
DTYPES = {torch.float32: tl.float32, torch.bfloat16: tl.bfloat16}
#: Numbers of a row that a program takes, and those at once.
CHUNK, BLOCK = 8192, 1024
#: Rows that ``weighted_sums`` reads at once.
ROWS_AT_ONCE = 4
#: Chunks that ``sums_of_chunks`` reads at once.
CHUNKS_AT_ONCE = 256
#: Positions that a program of ``layer_norm_sums`` takes, and those at once.
POSITIONS, ROWS = 32, 4

#: Columns of a table of tensors: addresses of [B, P], [B] and [P], and P.
_ROWS, _WEIGHTS, _TOTAL, _NUMBERS, _COLUMNS = (tl.constexpr(i) for i in (0, 1, 2, 3, 4))


@triton.jit
def _pointer(
    table, tensor, column: tl.constexpr, dtype: tl.constexpr, bytes: tl.constexpr = 1
):
    """Return an address of the table; bytes: what it is known to be a multiple of."""
    address = tl.load(table + tensor * _COLUMNS + column)
    return tl.multiple_of(address.to(tl.pointer_type(dtype), bitcast=True), bytes)


@triton.jit
def _numbers(table, tensor, ALIGNED: tl.constexpr):
    numbers = tl.load(table + tensor * _COLUMNS + _NUMBERS)
    return tl.multiple_of(numbers, 8 if ALIGNED else 1)


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
    """Write the sum of squares of each chunk of each row, float32 [B, count].

    chunks: int32 [count, 2]: its tensor, and its place there.
    """
    sample, chunk = tl.program_id(0) // count, tl.program_id(0) % count
    tensor, place = tl.load(chunks + 2 * chunk), tl.load(chunks + 2 * chunk + 1)
    numbers = _numbers(table, tensor, ALIGNED)
    row = _pointer(table, tensor, _ROWS, DTYPE, 16 if ALIGNED else 1)
    row += sample * numbers
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, CHUNK, BLOCK):
        places = place.to(tl.int64) * CHUNK + start + tl.arange(0, BLOCK)
        values = tl.load(row + places, mask=places < numbers, other=0.0)
        values = values.to(tl.float32)
        squares += values * values
    tl.store(sums + tl.program_id(0), tl.sum(squares, 0))


@triton.jit(do_not_specialize=["samples", "count"])
def sums_of_chunks(sums, starts, norms, samples, count, longer, AT_ONCE: tl.constexpr):
    """Write ``longer`` times the sum of each tensor's chunks, float32 [n, B].

    sums: float32 [B, count].  starts: int32 [n + 1], where the tensors' chunks begin.
    """
    tensor, sample = tl.program_id(0) // samples, tl.program_id(0) % samples
    start, stop = tl.load(starts + tensor), tl.load(starts + tensor + 1)
    row = sums + sample * count
    total = tl.zeros((AT_ONCE,), tl.float64)
    for first in range(start, stop, AT_ONCE):
        places = first + tl.arange(0, AT_ONCE)
        part = tl.load(row + places, mask=places < stop, other=0.0)
        total += part.to(tl.float64)
    norm = (tl.sum(total, 0) * longer).to(tl.float32)
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
    AT_ONCE: tl.constexpr,
):
    """Add sum_i weights[i] rows[i] to each float32 total, [P]; rows [B, P].

    A row of weight 0 is not read: its numbers need not be finite.
    """
    chunk = tl.program_id(0)
    tensor, place = tl.load(chunks + 2 * chunk), tl.load(chunks + 2 * chunk + 1)
    numbers = _numbers(table, tensor, ALIGNED)
    row = _pointer(table, tensor, _ROWS, DTYPE, 16 if ALIGNED else 1)
    weights = _pointer(table, tensor, _WEIGHTS, tl.float32)
    total = _pointer(table, tensor, _TOTAL, tl.float32)
    for start in range(0, CHUNK, BLOCK):
        places = place.to(tl.int64) * CHUNK + start + tl.arange(0, BLOCK)
        added = tl.zeros((BLOCK,), tl.float32)
        for first in range(0, samples, AT_ONCE):
            rows = first + tl.arange(0, AT_ONCE)
            weight = tl.load(weights + rows, mask=rows < samples, other=0.0)
            values = tl.load(
                row + (rows.to(tl.int64) * numbers)[:, None] + places[None, :],
                mask=(places < numbers)[None, :] & (weight != 0.0)[:, None],
                other=0.0,
            )
            added += tl.sum(weight[:, None] * values.to(tl.float32), 0)
        before = tl.load(total + places, mask=places < numbers, other=0.0)
        tl.store(total + places, before + added, mask=places < numbers)


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
    """Write sums over some positions of g xhat and of g, float32 [chunks, 2, B, D].

    x, g: [B, T, D].  xhat: x standardised over its D entries; not centred for RMS.
    """
    sample, chunk = tl.program_id(0), tl.program_id(1)
    lanes = tl.arange(0, ENTRIES)
    inside = lanes < entries
    of_weight = tl.zeros((ENTRIES,), tl.float32)
    of_bias = tl.zeros((ENTRIES,), tl.float32)
    for start in range(0, POSITIONS, ROWS):
        rows = chunk * POSITIONS + start + tl.arange(0, ROWS)
        offsets = (sample.to(tl.int64) * positions + rows) * entries
        places = offsets[:, None] + lanes[None, :]
        mask = (rows < positions)[:, None] & inside[None, :]
        values = tl.load(x + places, mask=mask, other=0.0).to(tl.float32)
        if CENTRED:
            mean = tl.sum(values, 1) / entries
            values = tl.where(mask, values - mean[:, None], 0.0)
        variance = tl.sum(values * values, 1) / entries
        values *= tl.rsqrt(variance + eps)[:, None]
        backprops = tl.load(g + places, mask=mask, other=0.0).to(tl.float32)
        of_weight += tl.sum(values * backprops, 0)
        of_bias += tl.sum(backprops, 0)
    samples = tl.num_programs(0)
    place = sums + (chunk.to(tl.int64) * 2 * samples + sample) * entries
    tl.store(place + lanes, of_weight, mask=inside)
    tl.store(place + samples * entries + lanes, of_bias, mask=inside)

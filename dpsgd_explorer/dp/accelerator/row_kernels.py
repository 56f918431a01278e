"""Sums over gradients that are stored as one row of numbers a sample."""

from __future__ import annotations

import triton
import triton.language as tl

#: Numbers of a row that a program of ``weighted_sum`` adds up.
COLUMNS = 2048
#: Numbers of a row that a program of ``square_sums`` takes, and those at once.
CHUNK, BLOCK = 16384, 2048
#: Positions that a program of ``layer_norm_sums`` takes, and those at once.
POSITIONS, ROWS = 32, 4


@triton.jit(do_not_specialize=["samples"])
def weighted_sum(rows, weights, total, samples, numbers, COLUMNS: tl.constexpr):
    """Add sum_i weights[i] rows[i] to float32 ``total``, [P]; rows [B, P].

    A row of weight 0 is not read: its numbers need not be finite.
    """
    places = tl.program_id(0).to(tl.int64) * COLUMNS + tl.arange(0, COLUMNS)
    inside = places < numbers
    added = tl.zeros((COLUMNS,), tl.float32)
    row = rows + places
    for i in range(samples):
        weight = tl.load(weights + i)
        read = places < tl.where(weight != 0.0, numbers, 0)
        values = tl.load(row, mask=read, other=0.0)
        added += weight * values.to(tl.float32)
        row += numbers
    before = tl.load(total + places, mask=inside, other=0.0)
    tl.store(total + places, before + added, mask=inside)


@triton.jit
def square_sums(rows, sums, numbers, CHUNK: tl.constexpr, BLOCK: tl.constexpr):
    """Write the sum of squares of each chunk of each row, float32 [B, chunks]."""
    sample, chunk = tl.program_id(0), tl.program_id(1)
    lanes = chunk * CHUNK + tl.arange(0, BLOCK)
    row = rows + sample.to(tl.int64) * numbers
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, CHUNK, BLOCK):
        places = start + lanes
        values = tl.load(row + places, mask=places < numbers, other=0.0)
        values = values.to(tl.float32)
        squares += values * values
    place = sample * tl.num_programs(1) + chunk
    tl.store(sums + place, tl.sum(squares, 0))


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
    """Write sums over some positions of g xhat and of g, float32 [B, chunks, 2, D].

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
    place = sums + (sample * tl.num_programs(1) + chunk).to(tl.int64) * 2 * entries
    tl.store(place + lanes, of_weight, mask=inside)
    tl.store(place + entries + lanes, of_bias, mask=inside)

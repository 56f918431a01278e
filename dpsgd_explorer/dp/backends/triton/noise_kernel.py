"""ChaCha20 and Box-Muller in one kernel, which needs no memory except the sum's.

Each lane encrypts one block of zeros under the key, 16 words of 32 bits.  It turns 15
words into 5 pairs of normal numbers, adds these to the sum and rounds to the grid.  The
transform repeats the operations of ``backends/native/box_muller.c`` one by one: equal
bits give equal numbers.  ``noise.secure`` describes what the transform idealizes.

Source: Nir and Langley (2018), RFC 8439, section 2.3 (the ChaCha20 block function).
"""

from __future__ import annotations

import triton
import triton.language as tl

#: Pairs of normal numbers per block of the cipher.  A pair takes 3 of its 16 words.
PAIRS_PER_BLOCK = tl.constexpr(5)
#: Blocks of the cipher per program, one per lane.
BLOCKS = 128

_MAX_INT32 = tl.constexpr(0x7FFFFFFF)
_SQRT_HALF = tl.constexpr(0x3F3504F3)  # the bits of sqrt(1/2)
# Radians per step of an angle of 32 bits, pi 2^-31.
_TURN = tl.constexpr(float.fromhex("0x1.921fb6p-30"))
_LN2, _LN2_REST = (
    tl.constexpr(float.fromhex(number)) for number in ("0x1.62e43p-1", "-0x1.05c61p-29")
)
# log(1 + f) = f - f^2 / 2 + f^3 LOG(f)
_LOG_0, _LOG_1, _LOG_2, _LOG_3, _LOG_4, _LOG_5, _LOG_6, _LOG_7 = (
    tl.constexpr(float.fromhex(number))
    for number in (
        *("0x1.555554p-2", "-0x1.000226p-2", "0x1.99a008p-3", "-0x1.547248p-3"),
        *("0x1.22da2ep-3", "-0x1.0d8534p-3", "0x1.055afp-3", "-0x1.38b49cp-4"),
    )
)
# sin(x) = x + x^3 SIN(x^2), cos(x) = 1 - x^2 / 2 + x^4 COS(x^2)
_SIN_0, _SIN_1, _SIN_2, _COS_0, _COS_1, _COS_2 = (
    tl.constexpr(float.fromhex(number))
    for number in (
        *("-0x1.555546p-3", "0x1.11073cp-7", "-0x1.9943e4p-13"),
        *("0x1.55554ap-5", "-0x1.6c0c34p-10", "0x1.99eb9ep-16"),
    )
)


@triton.jit
def _rotated(word, left: tl.constexpr):
    return (word << left) | (word >> (32 - left))


@triton.jit
def _quarter_round(a, b, c, d):
    a += b
    d = _rotated(d ^ a, 16)
    c += d
    b = _rotated(b ^ c, 12)
    a += b
    d = _rotated(d ^ a, 8)
    c += d
    b = _rotated(b ^ c, 7)
    return a, b, c, d


@triton.jit
def _constant(counter, word: tl.constexpr):
    return tl.full(counter.shape, word, tl.uint32)


@triton.jit
def _loaded(counter, words, index: tl.constexpr):
    return tl.broadcast_to(tl.load(words + index), counter.shape)


@triton.jit
def _block(key, call, counter):
    """Returns 15 words of the block of each counter, in the order of the key stream.

    key: 8 words.  call: first word of the nonce; its other words are 0.
    """
    a0, a1 = _constant(counter, 0x61707865), _constant(counter, 0x3320646E)
    a2, a3 = _constant(counter, 0x79622D32), _constant(counter, 0x6B206574)
    k0, k1 = _loaded(counter, key, 0), _loaded(counter, key, 1)
    k2, k3 = _loaded(counter, key, 2), _loaded(counter, key, 3)
    k4, k5 = _loaded(counter, key, 4), _loaded(counter, key, 5)
    k6, k7 = _loaded(counter, key, 6), _loaded(counter, key, 7)
    nonce, zero = _constant(counter, 0) + call.to(tl.uint32), _constant(counter, 0)
    x0, x1, x2, x3, x4, x5, x6, x7 = a0, a1, a2, a3, k0, k1, k2, k3
    x8, x9, x10, x11 = k4, k5, k6, k7
    x12, x13, x14, x15 = counter, nonce, zero, zero
    for _ in range(10):
        x0, x4, x8, x12 = _quarter_round(x0, x4, x8, x12)
        x1, x5, x9, x13 = _quarter_round(x1, x5, x9, x13)
        x2, x6, x10, x14 = _quarter_round(x2, x6, x10, x14)
        x3, x7, x11, x15 = _quarter_round(x3, x7, x11, x15)
        x0, x5, x10, x15 = _quarter_round(x0, x5, x10, x15)
        x1, x6, x11, x12 = _quarter_round(x1, x6, x11, x12)
        x2, x7, x8, x13 = _quarter_round(x2, x7, x8, x13)
        x3, x4, x9, x14 = _quarter_round(x3, x4, x9, x14)
    # fmt: off
    return (
        x0 + a0, x1 + a1, x2 + a2, x3 + a3, x4 + k0,
        x5 + k1, x6 + k2, x7 + k3, x8 + k4, x9 + k5,
        x10 + k6, x11 + k7, x12 + counter, x13 + nonce, x14 + zero,
    )
    # fmt: on


@triton.jit
def _float_of(bits):
    return bits.to(tl.float32, bitcast=True)


@triton.jit
def _bits_of(x):
    return x.to(tl.int32, bitcast=True)


@triton.jit
def _radius(low, high):
    """Returns sqrt(-log U), with U the fraction of 62 bits; see ``box_muller.c``."""
    high = (high & _MAX_INT32).to(tl.int32, bitcast=True)
    low = (low & _MAX_INT32).to(tl.int32, bitcast=True)
    is_upper = high >> 30
    flip = -is_upper & _MAX_INT32
    rest = tl.fma((low ^ flip).to(tl.float32), 2.0**-62, 2.0**-63)
    least = tl.fma((high ^ flip).to(tl.float32), 2.0**-31, rest)  # min(U, 1 - U)
    u = tl.where(is_upper != 0, 1.0 - least, least)
    exponent = (_bits_of(u) - _SQRT_HALF) >> 23  # u = 2^exponent (1 + f)
    f = _float_of(_bits_of(u) - exponent * (1 << 23)) - 1.0
    f = tl.where((is_upper != 0) & (exponent == 0), -least, f)
    p = tl.fma(_LOG_7 + 0.0 * f, f, _LOG_6)
    p = tl.fma(tl.fma(p, f, _LOG_5), f, _LOG_4)
    p = tl.fma(tl.fma(p, f, _LOG_3), f, _LOG_2)
    p = tl.fma(tl.fma(p, f, _LOG_1), f, _LOG_0)
    square = f * f
    log1p = f + tl.fma(square * f, p, -0.5 * square)
    k = exponent.to(tl.float32)
    return tl.sqrt_rn(-tl.fma(k, _LN2, tl.fma(k, _LN2_REST, log1p)))


@triton.jit
def _wave(angle):
    """Returns cosine and sine of the angle pi 2^-31 bits."""
    quarters = (angle + 0x20000000) >> 30
    x = (angle - (quarters << 30)).to(tl.int32, bitcast=True).to(tl.float32) * _TURN
    square = x * x
    s = tl.fma(tl.fma(_SIN_2 + 0.0 * square, square, _SIN_1), square, _SIN_0)
    c = tl.fma(tl.fma(_COS_2 + 0.0 * square, square, _COS_1), square, _COS_0)
    sine = tl.fma(square * x, s, x)
    cosine = tl.fma(square * square, c, tl.fma(square, -0.5 + 0.0 * square, 1.0))
    is_odd = (quarters & 1) != 0
    cosine_sign = (((quarters + 1) >> 1) << 31).to(tl.int32, bitcast=True)
    sine_sign = ((quarters >> 1) << 31).to(tl.int32, bitcast=True)
    return (
        _float_of(_bits_of(tl.where(is_odd, sine, cosine)) ^ cosine_sign),
        _float_of(_bits_of(tl.where(is_odd, cosine, sine)) ^ sine_sign),
    )


@triton.jit
def _add(values, offsets, mask, product, wave, shift):
    """Adds product * wave; the sum is rounded once, and then to the grid."""
    value = tl.load(values + offsets, mask=mask, other=0.0)
    value = (tl.fma(product, wave, value) + shift) - shift
    tl.store(values + offsets, value, mask=mask)


@triton.jit(do_not_specialize=["count", "call"])
def add_normals(
    values,
    count,
    key,
    call,
    scale,
    shift,
    BLOCKS: tl.constexpr,
):
    """Adds scale sqrt(-log U) (cos t, sin t) to float32 [count], rounded to the grid.

    Cosines are added to the first half of the values, and sines to the second.  A
    program has a tile of BLOCKS blocks of the cipher.  Pair i of the tile comes from
    block i % BLOCKS, from word 3 (i // BLOCKS) and the next two words.

    key: uint32 [8].  call: number of the call under this key.
    """
    lanes = tl.arange(0, BLOCKS)
    tile = tl.program_id(0)
    words = _block(key, call, (tile * BLOCKS + lanes).to(tl.uint32))
    pairs = count // 2
    half = count - pairs
    first = tile.to(tl.int64) * (BLOCKS * PAIRS_PER_BLOCK)
    for j in tl.static_range(PAIRS_PER_BLOCK):
        offsets = first + j * BLOCKS + lanes
        product = _radius(words[3 * j], words[3 * j + 1]) * scale
        cosine, sine = _wave(words[3 * j + 2])
        _add(values, offsets, offsets < half, product, cosine, shift)
        _add(values, half + offsets, offsets < pairs, product, sine, shift)

"""Sums of weights times powers of e^(ihℓ), without losing the digits of small ones."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from dpsgd_explorer.accounting.core.accountant import Floats

Complexes = npt.NDArray[np.complex128]

#: Largest number of multiplications of a matrix product that BLAS does in one thread.
#: In more threads it adds in another order, so the last digits of ε would depend on
#: their number.
MAX_PRODUCT_SIZE = 32_768
#: Rows of a matrix product that are computed at a time.
PRODUCT_ROWS = 8
#: Weights below e^-62 = 1e-27 of the largest weight are left out.
MAX_LOG_DROP = 62.0
#: Largest number of frequencies for which powers are no products of two powers.
MAX_UNSPLIT_COUNT = 32
#: |1 + z| below which its logarithm is computed from |1 + z| itself, which then has
#: more digits than |1 + z|² - 1.
MIN_LOG1P_SIZE = 0.5
#: Largest number of terms of a block in ``log_moments``.
MAX_BLOCK_TERMS = 64
#: Added to a positive sum: its smallest terms may have lost digits as subnormal floats.
SUBNORMAL_ERROR = 1e-316
#: Smallest |1 + z| of a logarithm, below the round-off of 1 + z.
MIN_SIZE = 1e-17


def transform_excess(shares: Floats, angles: Floats, count: int) -> Complexes:
    """Returns the sum of shares (e^(ik angles) - 1) for k = 0 ... count - 1.

    Shapes: shares, angles [M] -> [count].

    ab - 1 = (a - 1)(b - 1) + (a - 1) + (b - 1): a matrix product of √count powers with
    small exponents and √count powers with large ones gives all sums, and small sums
    keep their digits.
    """
    if count <= MAX_UNSPLIT_COUNT:
        return np.asarray(powers_excess(angles, count) @ shares)
    width = math.isqrt(count - 1) + 1
    inner = powers_excess(angles, width)  # [n, M]
    outer = powers_excess(width * angles, width) * shares
    sums = _product(outer, inner) + outer.sum(axis=1)[:, None] + inner @ shares
    return np.asarray(sums.reshape(-1)[:count])


def _product(a: Complexes, b: Complexes) -> Complexes:
    """Returns a b^T, the same bits in any number of threads.

    Shapes: a [m, M], b [n, M] -> [m, n].
    """
    width = max(MAX_PRODUCT_SIZE // (PRODUCT_ROWS * len(b)), 1)
    product = np.zeros((len(a), len(b)), dtype=np.complex128)
    for start in range(0, a.shape[1], width):
        columns = slice(start, start + width)
        for row in range(0, len(a), PRODUCT_ROWS):
            rows = slice(row, row + PRODUCT_ROWS)
            product[rows] += a[rows, columns] @ b[:, columns].T
    return product


def powers_excess(angles: Floats, count: int) -> Complexes:
    """Returns e^(ik angle) - 1 for k = 0 ... count - 1, doubling their number.

    Shapes: angles [M] -> [count, M].
    """
    powers = np.zeros((count, angles.size), dtype=np.complex128)
    done = 1
    while done < count:
        new = powers[done : 2 * done]
        turn = np.exp(0.5j * done * angles)
        step = 2j * turn.imag * turn  # e^(ia) - 1 = 2i sin(a/2) e^(ia/2)
        np.multiply(powers[: len(new)], 1 + step, out=new)
        new += step
        done *= 2
    return powers


def log1p(z: Complexes) -> Complexes:
    """Returns log(1 + z) with all digits of a small z, and of a small 1 + z."""
    x, y = z.real, z.imag
    size = np.hypot(1 + x, y)
    excess = np.maximum(x * (2 + x) + y * y, MIN_LOG1P_SIZE**2 - 1)  # |1 + z|² - 1
    far = np.log(np.maximum(size, MIN_SIZE))
    real = np.where(size < MIN_LOG1P_SIZE, far, 0.5 * np.log1p(excess))
    return np.asarray(real + 1j * np.arctan2(y, 1 + x))


def normalised(logs: Floats, loss: Floats) -> tuple[Floats, float, float, Floats]:
    """Returns the weights that are not negligible, divided by their sum.

    Shapes: logs, loss [M] -> [m], (), (), [m].

    Returns:
        The weights; log of the sum of all weights; the share of the weights that were
        left out; the losses of the others.
    """
    top = float(logs.max())
    shares = np.exp(logs - top)
    total = float(shares.sum())
    kept = np.flatnonzero(logs > top - MAX_LOG_DROP)
    span = slice(int(kept[0]), int(kept[-1]) + 1)
    left_out = float(shares[: span.start].sum()) + float(shares[span.stop :].sum())
    shares = shares[span] / float(shares[span].sum())
    return shares, top + math.log(total), left_out / total, loss[span]


def log_sum(logs: Floats) -> float:
    """Returns log of the sum of e^logs."""
    top = float(logs.max())
    return top + math.log(float(np.exp(logs - top).sum()))


def inverse(t: Floats, x: Floats, y: Floats, slopes: Floats) -> Floats:
    """Returns about the arguments at which an increasing function has the values t.

    Between two known points the inverse function is interpolated by a cubic.

    Shapes: t [N] between the ends of y, x, y, slopes [M] -> [N].

    Args:
        t: Values of the function.
        x: Arguments with known values.
        y: Values at x, increasing.
        slopes: Derivatives at x.
    """
    i = np.searchsorted(y[1:-1], t, side="right")
    width = y[i + 1] - y[i]
    share = (t - y[i]) / width
    rest = 1 - share
    left, right = width / slopes[i], width / slopes[i + 1]
    gap = x[i + 1] - x[i]
    bow = share * rest * (rest * (left - gap) - share * (right - gap))
    return np.asarray(x[i] + share * gap + bow)


def log_moments(losses: Floats, shares: Floats, tilts: Floats) -> Floats:
    """Returns log of the sum of shares e^(tilt ℓ); [M], [M], [J] -> [J].

    The losses are split into blocks.  e^(tilt ℓ) is e^(tilt ℓ₀) of the block's first
    loss ℓ₀ times e^(tilt (ℓ - ℓ₀)).  The second factor is the same for all blocks, and
    between 1/e and e.

    Args:
        losses: Evenly spaced, at least two.
        shares: At least 0.
        tilts: Tilts of either sign.
    """
    spacing = float(losses[1] - losses[0])
    turn = spacing * float(np.abs(tilts).max(initial=0.0))
    width = min(max(int(1 / turn), 1), MAX_BLOCK_TERMS) if turn else MAX_BLOCK_TERMS
    starts = losses[::width]  # [B]
    padded = np.zeros(len(starts) * width)
    padded[: len(shares)] = shares
    factors = np.exp(np.outer(spacing * np.arange(width), tilts))
    sums = padded.reshape(-1, width) @ factors  # [B, J]
    sums[sums > 0] += SUBNORMAL_ERROR
    with np.errstate(divide="ignore"):
        logs = np.log(sums) + np.outer(starts, tilts)
        top = np.where(np.isfinite(logs.max(axis=0)), logs.max(axis=0), 0.0)
        return np.asarray(top + np.log(np.exp(logs - top).sum(axis=0)))

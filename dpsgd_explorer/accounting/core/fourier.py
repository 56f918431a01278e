"""Sums of weights times powers of e^(ihℓ), without losing the digits of small ones."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from dpsgd_explorer.accounting.core.accountant import Floats

Complexes = npt.NDArray[np.complex128]

NEGLIGIBLE = 62.0  # weights below e^-62 = 1e-27 of the largest one are left out
SPLIT = 32  # frequencies from which a power is a product of two shorter ones
NEAR_ZERO = 0.5  # size of 1 + z below which 1 + z itself has more digits than |z|²
WIDEST_BLOCK = 64  # terms of a sum whose exponentials differ by a factor of e at most
TINY = 1e-316  # of a sum whose terms may have lost digits
LEAST_SIZE = 1e-17  # below the round-off of 1 + z: no size is less


def transform_excess(shares: Floats, angles: Floats, count: int) -> Complexes:
    """Return the sum of shares (e^(ik angles) - 1) for k = 0 ... count - 1.

    Shapes: shares, angles [M] -> [count].

    ab - 1 = (a - 1)(b - 1) + (a - 1) + (b - 1): a matrix product of √count short
    powers by as many long ones gives all, and no digits of a small sum are lost.
    """
    if count <= SPLIT:
        return np.asarray(powers_excess(angles, count) @ shares)
    width = math.isqrt(count - 1) + 1
    inner = powers_excess(angles, width)  # [n, M]
    outer = powers_excess(width * angles, width) * shares
    sums = outer @ inner.T + outer.sum(axis=1)[:, None] + inner @ shares
    return np.asarray(sums.reshape(-1)[:count])


def powers_excess(angles: Floats, count: int) -> Complexes:
    """Return e^(ik angle) - 1 for k = 0 ... count - 1, doubling their number.

    Shapes: angles [M] -> [count, M].
    """
    powers = np.zeros((count, angles.size), dtype=np.complex128)
    known = 1
    while known < count:
        new = powers[known : 2 * known]
        turn = np.exp(0.5j * known * angles)
        step = 2j * turn.imag * turn  # e^(ia) - 1 = 2i sin(a/2) e^(ia/2)
        np.multiply(powers[: len(new)], 1 + step, out=new)
        new += step
        known *= 2
    return powers


def log1p(z: Complexes) -> Complexes:
    """Return log(1 + z) with all digits of a small z, and of a small 1 + z."""
    x, y = z.real, z.imag
    size = np.hypot(1 + x, y)
    excess = np.maximum(x * (2 + x) + y * y, NEAR_ZERO**2 - 1)  # |1 + z|² - 1
    far = np.log(np.maximum(size, LEAST_SIZE))
    real = np.where(size < NEAR_ZERO, far, 0.5 * np.log1p(excess))
    return np.asarray(real + 1j * np.arctan2(y, 1 + x))


def normalised(logs: Floats, loss: Floats) -> tuple[Floats, float, float, Floats]:
    """Return weights that sum to 1, of those that are not negligible.

    Shapes: logs, loss [M] -> [m], (), (), [m].

    Returns:
        The weights; log of the sum of all; the share that was left out; the losses
        of those that stay.
    """
    top = float(logs.max())
    shares = np.exp(logs - top)
    total = float(shares.sum())
    kept = np.flatnonzero(logs > top - NEGLIGIBLE)
    span = slice(int(kept[0]), int(kept[-1]) + 1)
    left_out = float(shares[: span.start].sum()) + float(shares[span.stop :].sum())
    shares = shares[span] / float(shares[span].sum())
    return shares, top + math.log(total), left_out / total, loss[span]


def log_sum(logs: Floats) -> float:
    """Return log of the sum of e^logs."""
    top = float(logs.max())
    return top + math.log(float(np.exp(logs - top).sum()))


def inverse(t: Floats, x: Floats, y: Floats, slopes: Floats) -> Floats:
    """Return about where an increasing function is t: a cubic through x at each y.

    Shapes: t [N] between the ends of y, x, y, slopes [M] -> [N].

    Args:
        t: Values of the function.
        x: Where it is known.
        y: Its values there, increasing.
        slopes: Its derivatives there.
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
    """Return log of the sum of shares e^(tilt ℓ); [M], [M], [J] -> [J].

    As e^(tilt ℓ) of a block's first loss times that of the way from there, which is
    the same for all blocks, and between 1/e and e.

    Args:
        losses: Evenly spaced, at least two.
        shares: At least 0.
        tilts: Of either sign.
    """
    spacing = float(losses[1] - losses[0])
    turn = spacing * float(np.abs(tilts).max(initial=0.0))
    width = min(max(int(1 / turn), 1), WIDEST_BLOCK) if turn else WIDEST_BLOCK
    starts = losses[::width]  # [B]
    padded = np.zeros(len(starts) * width)
    padded[: len(shares)] = shares
    ways = np.exp(np.outer(spacing * np.arange(width), tilts))
    sums = padded.reshape(-1, width) @ ways  # [B, J]
    sums[sums > 0] += TINY
    with np.errstate(divide="ignore"):
        logs = np.log(sums) + np.outer(starts, tilts)
        top = np.where(np.isfinite(logs.max(axis=0)), logs.max(axis=0), 0.0)
        return np.asarray(top + np.log(np.exp(logs - top).sum(axis=0)))

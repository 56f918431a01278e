"""Sums and differences of numbers that fit into a float only as logarithms.

The mixture is log(1 - q + q w) with w = e^((v - 1/2σ)/σ), on the real line and off it:
the logarithm of the ratio of (1 - q) N(0, σ²) + q N(1, σ²) to N(0, σ²), v being the
noise in units of its standard deviation.  On v + iτ the second summand turns by τ/σ:
real arithmetic with the angle is several times as fast as complex logarithms.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from dpsgd_explorer.accounting.core.intervals import Floats
from dpsgd_explorer.accounting.core.tolerances import MAX_EXPONENT


def log_expm1(values: Floats) -> Floats:
    """Returns log(e^x - 1) for x >= 0, without overflow; -infinity at 0."""
    with np.errstate(divide="ignore"):
        return np.asarray(values + np.log(-np.expm1(-values)))  # e^x (1 - e^-x)


def log_sum_segments(values: Floats, starts: npt.NDArray[np.intp]) -> Floats:
    """Returns log of the sum of e^x over each segment of a flat array.

    Shapes: values [n], starts [A] (first index of each segment) -> [A].
    """
    largest = np.maximum.reduceat(values, starts)  # [A]
    lengths = np.diff(starts, append=len(values))
    scaled = np.exp(values - np.repeat(largest, lengths))  # [n], each at most 1
    return np.asarray(largest + np.log(np.add.reduceat(scaled, starts)))


def log_mixture(v: Floats, sample_rate: float, noise: float) -> tuple[Floats, Floats]:
    """Returns log(1 - q + q w) and its derivative at real v; small values keep digits.

    Shapes: v [...] -> [...], [...].
    """
    log_ratio = (v - 0.5 / noise) / noise  # log w
    top = float(log_ratio.max(initial=0.0))
    if top < MAX_EXPONENT:
        more = sample_rate * np.expm1(log_ratio)
        share = sample_rate * np.exp(log_ratio) / (1 + more)
        return np.log1p(more), share / noise
    turn = -math.log(sample_rate)  # log w where q w = 1: beyond it, no value is small
    rest = (1 - sample_rate) * np.exp(turn - np.maximum(log_ratio, turn))
    far = log_ratio - turn + np.log1p(rest)
    capped = np.minimum(log_ratio, turn)
    more = sample_rate * np.expm1(capped)
    is_near = log_ratio < turn
    near = sample_rate * np.exp(capped) / (1 + more)
    share = np.where(is_near, near, 1 / (1 + rest))
    return np.where(is_near, np.log1p(more), far), share / noise


def shifted_mixture(
    v: Floats, height: Floats, sample_rate: float, noise: float
) -> tuple[Floats, Floats]:
    """Returns the real and imaginary part of log(1 - q + q w) at v + i height.

    Shapes: v [M], height [..., M] with 0 <= height < πσ -> [..., M], [..., M].
    """
    stay = math.log1p(-sample_rate)
    move = (v - 0.5 / noise) / noise + math.log(sample_rate)
    top = np.maximum(stay, move)
    a, b = np.exp(stay - top), np.exp(move - top)
    angle = height / noise
    cosine = np.cos(0.5 * angle)
    square = (a - b) ** 2 + 4 * a * b * cosine * cosine
    imaginary = np.arctan2(b * np.sin(angle), a + b * np.cos(angle))
    return top + 0.5 * np.log(square), imaginary

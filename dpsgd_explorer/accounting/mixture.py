"""log(1 - q + q w) with w = e^((v - 1/2σ)/σ), on the real line and off it.

This is the logarithm of the ratio of (1 - q) N(0, σ²) + q N(1, σ²) to N(0, σ²), v being
the noise in units of its standard deviation.  On v + iτ the second summand turns by
τ/σ: real arithmetic with the angle is several times as fast as complex logarithms.
"""

from __future__ import annotations

import math

import numpy as np

from dpsgd_explorer.accounting.accountant import Floats

LARGEST_EXPONENT = 700.0  # whose exponential is a float


def log_mixture(v: Floats, sample_rate: float, noise: float) -> tuple[Floats, Floats]:
    """Return the logarithm and its derivative at real v, small values to all digits.

    Shapes: v [...] -> [...], [...].
    """
    log_ratio = (v - 0.5 / noise) / noise  # log w
    top = float(log_ratio.max(initial=0.0))
    if top < LARGEST_EXPONENT:
        more = sample_rate * np.expm1(log_ratio)
        return np.log1p(more), (sample_rate + more) / (1 + more) / noise
    rest = (1 - sample_rate) / sample_rate * np.exp(-np.maximum(log_ratio, 1.0))
    far = log_ratio + math.log(sample_rate) + np.log1p(rest)
    more = sample_rate * np.expm1(np.minimum(log_ratio, 1.0))
    is_near = log_ratio < 1.0
    share = np.where(is_near, (sample_rate + more) / (1 + more), 1 / (1 + rest))
    return np.where(is_near, np.log1p(more), far), share / noise


def shifted_mixture(
    v: Floats, height: Floats, sample_rate: float, noise: float
) -> tuple[Floats, Floats]:
    """Return the logarithm's real and imaginary part at v + i height.

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

"""Print the constants of ``dpsgd_explorer/dp/backends/native/lstm_steps.c``.

Run as ``python -m tools.fit_exponential``.
"""

from __future__ import annotations

import math

import mpmath
import numpy as np

from tools.fit_box_muller import Fit, minimax, written

DEGREE = 5
#: Digits of the first part of log(2), so that its products with exponents are exact.
DIGITS = 9


def fit() -> Fit:
    """Return EXP: exp(r) - 1 = r + r^2 EXP(r), |r| up to log(2) / 2."""
    half = math.log(2) / 2
    return minimax(
        lambda r: (mpmath.expm1(r) - r) / r**2,
        lambda r: r**2 / mpmath.expm1(r),
        (-half, half),
        DEGREE,
    )


def constants() -> dict[str, list[float]]:
    """Return the constants by their name in the C file."""
    high = math.floor(math.log(2) * 2**DIGITS) / 2**DIGITS
    low = float(np.float32(mpmath.log(2) - high))
    return {
        "EXP": fit().coefficients,
        "LN2": [high, low],
        "LOG2E": [float(np.float32(1 / math.log(2)))],
    }


def main() -> None:
    """Print the constants and the error of the polynomial."""
    for name, values in constants().items():
        print(f"{name} = {{{', '.join(written(value) for value in values)}}}")
    print(f"EXP: largest relative error {fit().error:.4f} roundings of a float")


if __name__ == "__main__":
    main()

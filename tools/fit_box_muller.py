"""Print the polynomials of ``dpsgd_explorer/dp/backends/native/box_muller.c``.

Run as ``python -m tools.fit_box_muller``.  Each polynomial minimizes the maximum
relative error of the function that it completes, on a grid of Chebyshev points.  Linear
programming finds it (Barrodale and Phillips, 1975, "Algorithm 495: Solution of an
Overdetermined System of Linear Equations in the Chebyshev Norm").
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import mpmath
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

#: Number of grid points, and decimal digits of the functions at these points.
POINTS, DIGITS = 400, 40
#: Relative rounding error of a float32.
ROUNDING = 2.0**-24


class Fit(NamedTuple):
    """A polynomial.

    Attributes:
        coefficients: Coefficients as float32, the constant first.
        error: Maximum relative error before rounding, in units of ``ROUNDING``.
    """

    coefficients: list[float]
    error: float


def minimax(
    function: Callable[[mpmath.mpf], mpmath.mpf],
    weight: Callable[[mpmath.mpf], mpmath.mpf],
    interval: tuple[float, float],
    degree: int,
) -> Fit:
    """Return the polynomial that minimizes the maximum of |weight * (p - function)|."""
    low, high = interval
    angles = np.pi * (np.arange(POINTS) + 0.5) / POINTS
    x = (low + high) / 2 + (high - low) / 2 * np.cos(angles)
    weights = _at(weight, x) / ROUNDING
    powers = x[:, None] ** np.arange(degree + 1) * weights[:, None]
    sizes = np.abs(powers).max(0)
    wanted = _at(function, x) * weights
    bound = np.ones((POINTS, 1))
    solved = linprog(
        np.r_[np.zeros(degree + 1), 1.0],
        A_ub=np.block([[powers / sizes, -bound], [-powers / sizes, -bound]]),
        b_ub=np.r_[wanted, -wanted],
        bounds=[(None, None)] * (degree + 1) + [(0, None)],
    )
    coefficients = (solved.x[:-1] / sizes).astype(np.float32)
    return Fit([float(one) for one in coefficients], float(solved.x[-1]))


def _at(
    function: Callable[[mpmath.mpf], mpmath.mpf], x: NDArray[np.float64]
) -> NDArray[np.float64]:
    with mpmath.workdps(DIGITS):
        return np.array([float(function(mpmath.mpf(one))) for one in x])


def fits() -> dict[str, Fit]:
    """Return the polynomials by their name in the C file."""
    quarter = (0.0, (math.pi / 4) ** 2)
    return {
        "LOG": minimax(
            lambda f: (mpmath.log1p(f) - f + f**2 / 2) / f**3,
            lambda f: f**3 / mpmath.log1p(f),
            (math.sqrt(0.5) - 1, math.sqrt(2) - 1),
            7,
        ),
        "SIN": minimax(
            lambda z: (mpmath.sin(mpmath.sqrt(z)) / mpmath.sqrt(z) - 1) / z,
            lambda z: z * mpmath.sqrt(z) / mpmath.sin(mpmath.sqrt(z)),
            quarter,
            2,
        ),
        "COS": minimax(
            lambda z: (mpmath.cos(mpmath.sqrt(z)) - 1 + z / 2) / z**2,
            lambda z: z**2 / mpmath.cos(mpmath.sqrt(z)),
            quarter,
            2,
        ),
    }


def constants() -> dict[str, list[float]]:
    """Return the polynomials' and all other constants by their name in the C file."""
    ln2 = float(np.float32(math.log(2)))
    return {name: fit.coefficients for name, fit in fits().items()} | {
        "LN2": [ln2, float(np.float32(math.log(2) - ln2))],
        "TURN": [float(np.float32(math.pi * 2.0**-31))],
    }


def written(value: float) -> str:
    """Return a float32 in C's hexadecimal notation."""
    sign = "-" if value < 0 else ""
    digits, exponent = abs(value).hex().removeprefix("0x").split("p")
    return f"{sign}0x{digits.rstrip('0').rstrip('.')}p{int(exponent)}f"


def main() -> None:
    """Print the constants and the errors of the polynomials."""
    for name, values in constants().items():
        print(f"{name} = {{{', '.join(written(value) for value in values)}}}")
    for name, fit in fits().items():
        print(f"{name}: largest relative error {fit.error:.2f} roundings of a float")


if __name__ == "__main__":
    main()

"""Where a contour's sum crosses δ, and what is certain about it.

Notation: T rows (numbers of steps).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dpsgd_explorer.accounting.core.accountant import Floats
from dpsgd_explorer.accounting.exact.contour import Contour, Sum

SETTLED = 1e-11  # of the sum: what the tangent at its place leaves out
MOST_ITERATIONS = 40
MOST_SHIFTS = 5


def enclose(
    contour: Contour, starts: Floats, log_delta: float
) -> tuple[Floats, Floats, Floats]:
    """Return ε of each row where S = δ, and one seen to lie below and above the truth.

    Shapes: starts [T] -> [T], [T], [T].

    Returns:
        The roots; the lower and the upper side, infinite where nothing is certain.
    """
    found, step = _newton(contour, starts, log_delta)
    _, slope = contour.log_delta(found)
    lower, upper = (_side(contour, found, step, slope, log_delta, i) for i in (-1, 1))
    return found.epsilons + np.where(np.isfinite(step), step, 0.0), lower, upper


def _newton(contour: Contour, starts: Floats, log_delta: float) -> tuple[Sum, Floats]:
    """Return sums near δ and Newton's next step; bisection where steps leave."""
    x = starts.copy()
    low, high = np.full_like(x, -np.inf), np.full_like(x, np.inf)
    reach = contour.period / 4
    for _ in range(MOST_ITERATIONS):
        found = contour.sum(x)
        value, slope = contour.log_delta(found)
        excess = value - log_delta
        over = excess > 0  # NaN: too far out, where nothing but noise is left
        low, high = np.where(over, x, low), np.where(over, high, x)
        with np.errstate(invalid="ignore", divide="ignore"):
            step = np.clip(excess / -slope, -reach, reach)
            left_out = contour.bend * step * step <= 2 * SETTLED * found.total
            settled = (slope < 0) & left_out
        step = np.where(np.isfinite(step) & (slope < 0), step, -reach)
        new = x + step
        bounded = np.isfinite(low) & np.isfinite(high)
        outside = bounded & ((new <= low) | (new >= high)) & ~settled
        with np.errstate(invalid="ignore"):
            new = np.where(outside, 0.5 * (low + high), new)
        moved = new - x
        settled |= np.abs(moved) <= 1e-14 * np.abs(x)
        if settled.all():
            break
        x = np.where(settled, x, new)
    return found, step


def _side(
    contour: Contour,
    found: Sum,
    step: Floats,
    slope: Floats,
    log_delta: float,
    side: int,
) -> Floats:
    """Return an ε that is seen to lie above (side 1) or below (-1) the true one."""
    with np.errstate(invalid="ignore", divide="ignore"):
        doubt = contour.doubt(found, aliasing=side < 0)
        shift = 1.01 * doubt / -slope + 2e-15 * np.abs(found.epsilons)
        result = _seen(contour, found, step + side * shift, log_delta, side)
        for _ in range(MOST_SHIFTS):
            if np.isfinite(result).all():
                break
            x = found.epsilons + step + side * shift  # too far for the tangent
            there = _seen(contour, contour.sum(x, turns=False), 0.0, log_delta, side)
            result = np.where(np.isfinite(result), result, there)
            shift = 4 * shift
    return result


def _seen(
    contour: Contour, found: Sum, shift: Floats | float, log_delta: float, side: int
) -> Floats:
    """Return ε + shift where it is seen to lie on its side, else infinity; [T]."""
    if side > 0:
        seen = contour.at_most(found, shift) <= log_delta
    else:
        seen = contour.at_least(found, shift) >= log_delta
    return np.where(seen, found.epsilons + shift, side * np.inf)


def are_close(lower: Floats, upper: Floats, goal: float) -> npt.NDArray[np.bool_]:
    """Tell whether both sides meet within the goal, or ε is 0."""
    with np.errstate(invalid="ignore"):
        near = np.isfinite(upper) & (upper - lower <= goal * np.abs(upper))
        return np.asarray(near | (upper <= 0))

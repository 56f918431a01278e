"""Where a contour's sum crosses δ, and what is certain about it.

Notation: T rows (numbers of steps).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dpsgd_explorer.accounting.accountant import Floats
from dpsgd_explorer.accounting.contour import Contour, Sum

ROOT = 1e-12  # error of log δ that ends Newton's steps
MOST_ITERATIONS = 40


def find_roots(contour: Contour, starts: Floats, log_delta: float) -> Floats:
    """Return where S = δ in each row: Newton's steps, bisection where they leave."""
    x = starts.copy()
    low, high = np.full_like(x, -np.inf), np.full_like(x, np.inf)
    reach = contour.period / 4
    for _ in range(MOST_ITERATIONS):
        value, slope = contour.value(x)
        excess = value - log_delta
        over = excess > 0  # NaN: too far out, where nothing but noise is left
        low, high = np.where(over, x, low), np.where(over, high, x)
        with np.errstate(invalid="ignore", divide="ignore"):
            step = np.clip(excess / -slope, -reach, reach)
        step = np.where(np.isfinite(step) & (slope < 0), step, -reach)
        new = x + step
        bounded = np.isfinite(low) & np.isfinite(high)
        outside = bounded & ((new <= low) | (new >= high))
        with np.errstate(invalid="ignore"):
            new = np.where(outside, 0.5 * (low + high), new)
        moved = new - x
        x = np.where(np.abs(excess) < ROOT, x, new)
        if np.all((np.abs(excess) < ROOT) | (np.abs(moved) <= 1e-14 * np.abs(x))):
            break
    return x


def certain_side(
    contour: Contour, roots: Floats, found: Sum, log_delta: float, side: int
) -> Floats:
    """Return an ε that is seen to lie above (side 1) or below (-1) the true one.

    Args:
        contour: Whose sum is asked.
        roots: Where it is about δ.
        found: What it says there.
        log_delta: log δ.
        side: Which.
    """
    error = found.below if side > 0 else found.above
    with np.errstate(invalid="ignore", divide="ignore"):
        shift = 1.01 * error / -found.slope + 1e-15 * np.abs(roots)
    result = np.full_like(roots, side * np.inf)
    for _ in range(4):
        x = roots + side * shift
        seen = is_certain(contour.sum(x, slope=False), log_delta, side)
        result = np.where(seen & ~np.isfinite(result), x, result)
        if np.isfinite(result).all():
            break
        shift = 4 * shift
    return result


def is_certain(found: Sum, log_delta: float, side: int) -> npt.NDArray[np.bool_]:
    """Tell whether δ is certainly at most (side 1) or at least (-1) this; [T]."""
    with np.errstate(invalid="ignore", divide="ignore"):
        if side > 0:
            return np.asarray(found.log_delta + np.log1p(found.below) <= log_delta)
        kept = np.log1p(-np.minimum(found.above, 1.0))
        return np.asarray(found.log_delta + kept >= log_delta)


def are_close(lower: Floats, upper: Floats, goal: float) -> npt.NDArray[np.bool_]:
    """Tell whether both sides meet within the goal, or ε is 0."""
    with np.errstate(invalid="ignore"):
        near = np.isfinite(upper) & (upper - lower <= goal * np.abs(upper))
        return np.asarray(near | (upper <= 0))

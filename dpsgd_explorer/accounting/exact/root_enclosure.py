"""Enclosure of the ε at which a contour's sum is δ.

Newton's method gives a root of S(ε) = δ, for all rows of a contour together.  Then ε is
moved by the error bound to either side, until the bounds on log δ there confirm that
the true root is between the two.

Notation: T rows (numbers of steps).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dpsgd_explorer.accounting.core.accountant import Floats
from dpsgd_explorer.accounting.core.tolerances import TOLERANCES
from dpsgd_explorer.accounting.exact.contour import Contour, TrapezoidSum

#: Newton steps of one search, which ends earlier when all rows are settled.
MAX_NEWTON_STEPS = 40
#: Times that an interval is made four times as wide, until it is confirmed.
MAX_WIDENINGS = 5
#: Largest Newton step as a share of the period: farther away, S and δ differ in shape.
MAX_STEP_SHARE = 1 / 4
#: Factor on the error bound, because the bound itself changes with ε.
SHIFT_MARGIN = 1.01


class RootEnclosure(NamedTuple):
    """ε of each row at δ, and bounds on it; [T] each.

    Attributes:
        roots: ε with S(ε) = δ.
        lower: Confirmed lower bound, -infinity where none was confirmed.
        upper: Confirmed upper bound, infinity where none was confirmed.
    """

    roots: Floats
    lower: Floats
    upper: Floats


def enclose_roots(contour: Contour, guesses: Floats, log_delta: float) -> RootEnclosure:
    """Returns the root of S(ε) = δ of each row, with confirmed bounds.

    Shapes: guesses [T] -> [T] each.
    """
    point, step = _newton(contour, guesses, log_delta)
    _, slope = contour.log_delta(point)
    lower, upper = (
        _bound(contour, point, step, slope, log_delta, sign) for sign in (-1, 1)
    )
    roots = point.epsilons + np.where(np.isfinite(step), step, 0.0)
    return RootEnclosure(roots, lower, upper)


def _newton(
    contour: Contour, guesses: Floats, log_delta: float
) -> tuple[TrapezoidSum, Floats]:
    """Returns sums near the roots, and the Newton step from there.

    A row is settled if the curvature term of this step is negligible.  Steps that leave
    a bracket are replaced by a bisection.
    """
    x = guesses.copy()
    low, high = np.full_like(x, -np.inf), np.full_like(x, np.inf)
    longest = contour.period * MAX_STEP_SHARE
    for _ in range(MAX_NEWTON_STEPS):
        point = contour.sum(x)
        value, slope = contour.log_delta(point)
        excess = value - log_delta
        over = excess > 0  # False for NaN: only round-off is left so far to the right
        low, high = np.where(over, x, low), np.where(over, high, x)
        with np.errstate(invalid="ignore", divide="ignore"):
            step = np.clip(excess / -slope, -longest, longest)
            curvature_term = contour.curvature_bound * step * step
            negligible = curvature_term <= 2 * TOLERANCES.tangent_error * point.total
            settled = (slope < 0) & negligible
        step = np.where(np.isfinite(step) & (slope < 0), step, -longest)
        new = x + step
        bracketed = np.isfinite(low) & np.isfinite(high)
        outside = bracketed & ((new <= low) | (new >= high)) & ~settled
        with np.errstate(invalid="ignore"):
            new = np.where(outside, 0.5 * (low + high), new)
        settled |= np.abs(new - x) <= TOLERANCES.last_step * np.abs(x)
        if settled.all():
            break
        x = np.where(settled, x, new)
    return point, step


def _bound(
    contour: Contour,
    point: TrapezoidSum,
    step: Floats,
    slope: Floats,
    log_delta: float,
    sign: int,
) -> Floats:
    """Returns a confirmed bound on each row's ε, from above (sign 1) or below (-1).

    The sum's tangent at the point confirms the bound nearly always.  Otherwise the sum
    at the bound itself is tried, with wider and wider shifts.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        error = contour.error_bound(point, aliasing=sign < 0)
        round_off = TOLERANCES.root * np.abs(point.epsilons)
        shift = SHIFT_MARGIN * error / -slope + round_off
        bound = _confirmed(contour, point, step + sign * shift, log_delta, sign)
        for _ in range(MAX_WIDENINGS):
            if np.isfinite(bound).all():
                break
            moved = contour.sum(point.epsilons + step + sign * shift, derivative=False)
            retried = _confirmed(contour, moved, 0.0, log_delta, sign)
            bound = np.where(np.isfinite(bound), bound, retried)
            shift = 4 * shift
    return bound


def _confirmed(
    contour: Contour,
    point: TrapezoidSum,
    shift: Floats | float,
    log_delta: float,
    sign: int,
) -> Floats:
    """Returns ε + shift where it is proven to bound the root, else ±infinity; [T]."""
    if sign > 0:
        proven = contour.upper_bound(point, shift) <= log_delta
    else:
        proven = contour.lower_bound(point, shift) >= log_delta
    return np.where(proven, point.epsilons + shift, sign * np.inf)


def bounds_meet(lower: Floats, upper: Floats, gap: float) -> npt.NDArray[np.bool_]:
    """Returns True where the relative gap is at most ``gap``, or ε is 0; [T]."""
    with np.errstate(invalid="ignore"):
        meet = np.isfinite(upper) & (upper - lower <= gap * np.abs(upper))
        return np.asarray(meet | (upper <= 0))

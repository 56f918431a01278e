"""Bounds on ε and δ of a composition from discretised PLDs, refined until they meet.

They are used where the contour integral needs too many frequencies: few steps with tiny
sample rates.  The error of both bounds is proportional to the square of the grid's
spacing, so that a fourfold refinement leaves a sixteenth of the gap.

Notation: P phases, T rows (numbers of steps, or ε), J tilts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dpsgd_explorer.accounting.core.accountant import Floats
from dpsgd_explorer.accounting.core.fourier import log_moments
from dpsgd_explorer.accounting.core.tolerances import TOLERANCES
from dpsgd_explorer.accounting.exact.discretization import pessimistic_masses
from dpsgd_explorer.accounting.exact.discretized_pld import (
    MAX_LOSS,
    MIN_SPACING,
    DiscretizedPlds,
    PldWindow,
    spare_points,
)
from dpsgd_explorer.accounting.exact.privacy_loss import PrivacyCurve, PrivacyLoss

#: Points of a period, one size per refinement.
FFT_SIZES = (1 << 13, 1 << 15, 1 << 17, 1 << 19)
MAX_REFINEMENTS = len(FFT_SIZES)
#: Points of one refinement, over all rows and phases.
MAX_POINTS = 1 << 20
#: δ of a single step below which bounds are not narrowed.
MIN_DELTA = 1e-100
#: Limits on the log of the tilted masses near ε over δ.  Tilts are tried that meet, for
#: all rows, the first limit that some tilt meets.
LOG_CANCELLATIONS = (12.0, 18.0, 24.0)
#: Number of tilts that are tried.
MAX_TILTS = 16
#: Points of a step's grid for truncated moments.
TRUNCATED_POINTS = 1 << 10
#: Largest width of a window: the exponentials of its ends are floats.
MAX_WIDTH = 350.0
#: Largest width of a window with a larger tilt, over the width of the narrowest window.
WIDTH_MARGIN = 1.1


def discretized_epsilons(
    losses: Sequence[PrivacyLoss],
    counts: Floats,
    delta: float,
    tilts: Floats,
    cumulants: Floats,
    refinements: int = MAX_REFINEMENTS,
    *,
    two_sided: bool = True,
) -> tuple[Floats, Floats]:
    """Returns lower and upper bounds on ε at delta after each row of steps.

    Rows within an octave of steps share a grid.  A grid is placed where ε is expected
    (``_epsilon_floors``).  For rows whose gap it does not narrow, a second grid of the
    same size is placed by the proven lower bounds alone.

    Shapes: counts [T, P], tilts [J], cumulants [T, J] -> [T], [T].

    Args:
        losses: Privacy loss of one step of each phase.
        counts: Steps of each phase.
        delta: In (0, 1).
        tilts: Tilts with known cumulants.
        cumulants: K of each row.
        refinements: Number of grids, from coarse to fine.
        two_sided: If True, lower bounds are computed too.  If False, the first finite
            upper bound ends the refinement.

    Returns:
        Bounds of at least 0; 0 and infinity where no bound was proven.
    """
    lower, upper = np.zeros(len(counts)), np.full(len(counts), np.inf)
    goal = lower if two_sided else upper  # the values that the upper bounds should meet
    floors = _epsilon_floors(losses, np.sign(counts) if two_sided else counts, delta)
    octaves = np.floor(np.log2(counts.sum(axis=1)))
    for octave in np.unique(octaves):
        rows = np.flatnonzero(octaves == octave)
        gaps = [np.ones(len(rows))]  # relative, after each refinement
        steps = float(counts[rows].sum(axis=1).max())
        for points in _grid_sizes(counts.size, steps, refinements):
            rows = rows[_worth_refining(gaps, points)]
            if not len(rows):
                break
            for least in (np.maximum(lower, floors), lower.copy()):
                wide = rows[_relative_gap(goal[rows], upper[rows]) >= gaps[-1]]
                if not len(wide):
                    break
                window = choose_window(
                    losses, counts[wide], delta, least[wide], tilts, cumulants[wide]
                )
                plds = DiscretizedPlds(losses, window, points)
                for row in wide if plds.is_usable else ():
                    high = plds.upper_tail(counts[row]).epsilon(delta)
                    upper[row] = min(upper[row], high)
                    if two_sided:
                        low = plds.lower_tail(counts[row]).epsilon(delta)
                        lower[row] = max(lower[row], low)
            gaps.append(_relative_gap(goal[rows], upper[rows]))
    return lower, upper


def discretized_log_deltas(
    losses: Sequence[PrivacyLoss],
    counts: Floats,
    epsilons: Floats,
    tilts: Floats,
    cumulants: Floats,
    refinements: int = MAX_REFINEMENTS,
) -> tuple[Floats, Floats]:
    """Returns lower and upper bounds on log δ of one row of steps at each ε.

    Shapes: counts [P], epsilons [T], tilts [J], cumulants [J] -> [T], [T].
    """
    done = [loss for loss, n in zip(losses, counts, strict=True) if n]
    single = np.max([loss.deltas(epsilons) for loss in done], axis=0)  # <= δ
    with np.errstate(divide="ignore"):
        lower, upper = np.log(np.maximum(single, 0.0)), np.zeros(len(epsilons))
    for row in np.flatnonzero(single > MIN_DELTA):
        curves = len(epsilons) * len(counts)
        for points in _grid_sizes(curves, float(counts.sum()), refinements):
            if upper[row] - lower[row] <= TOLERANCES.discretized_gap:
                break
            delta = math.exp(lower[row])
            window = choose_window(
                losses, counts[None], delta, epsilons[[row]], tilts, cumulants[None]
            )
            plds = DiscretizedPlds(losses, window, points)
            if plds.is_usable:
                epsilon = float(epsilons[row])
                low = plds.lower_tail(counts).log_delta(epsilon)
                high = plds.upper_tail(counts).log_delta(epsilon)
                lower[row], upper[row] = max(lower[row], low), min(upper[row], high)
    return lower, upper


def upper_deltas(
    losses: Sequence[PrivacyLoss],
    counts: Floats,
    epsilons: Floats,
    delta: float,
    least: float,
    tilts: Floats,
    cumulants: Floats,
) -> Floats:
    """Returns upper bounds on δ of one row of steps, from one grid for all ε.

    Shapes: counts [P], epsilons [T], tilts [J], cumulants [J] -> [T].

    Args:
        losses: Privacy loss of one step of each phase.
        counts: Steps of each phase.
        epsilons: ε at which δ is bounded.
        delta: Smallest δ of interest: below it, the bounds are wide.
        least: About ε at this δ, or less.
        tilts: Tilts with known cumulants.
        cumulants: K of the steps.
    """
    sizes = _grid_sizes(len(counts), float(counts.sum()), MAX_REFINEMENTS)
    row, floor = counts[None], np.array([least])
    if sizes:
        window = choose_window(losses, row, delta, floor, tilts, cumulants[None])
        plds = DiscretizedPlds(losses, window, sizes[-1])
        if plds.is_usable:
            tail = plds.upper_tail(counts)
            logs = [min(tail.log_delta(float(epsilon)), 0.0) for epsilon in epsilons]
            return np.exp(logs)
    return np.ones(len(epsilons))


def choose_window(
    losses: Sequence[PrivacyCurve],
    counts: Floats,
    delta: float,
    epsilons: Floats,
    tilts: Floats,
    cumulants: Floats,
) -> PldWindow:
    """Returns about the narrowest window that is wide enough for all rows.

    Under the tilt c the sum S of the losses has, by Chernoff's inequality,

        P(S >= b) <= e^(K(c') - K(c) - (c' - c) b)    for c' > c,

    and P(S <= a) has the corresponding bound for c' < c.  An error in the tilted masses
    is, relative to δ, e^(K(c) - cε) / δ times as large.  So a and b follow from the
    tail that may be folded over, and c from the width of the window.  K is computed for
    the losses that a grid covers: losses beyond it, with a probability far below δ, may
    make K explode.

    Shapes: counts [T, P], epsilons [T], tilts [J], cumulants [T, J].

    Args:
        losses: Privacy loss of one step of each phase.
        counts: Steps of each phase.
        delta: About the δ of interest.
        epsilons: About the ε of each row, or less.
        tilts: Tilts with known cumulants.
        cumulants: K of each row.
    """
    steps = int(counts.sum(axis=1).max())
    tail = TOLERANCES.tail
    ranges = np.array([loss.loss_range(tail * delta / steps) for loss in losses])
    cumulants = np.minimum(
        cumulants, counts @ _truncated_cumulants(losses, ranges, tilts)
    )
    low, high = (counts @ ranges).T  # [T], [T]: the ends of the sums
    cancellation = cumulants - np.outer(epsilons, tilts) - math.log(delta)  # [T, J]
    sets = (
        np.flatnonzero((cancellation <= most).all(axis=0)) for most in LOG_CANCELLATIONS
    )
    least = int(np.argmin(cancellation.max(axis=0)))
    below = np.arange(max(least + 1 - MAX_TILTS, 0), least + 1)
    candidates = next((indices for indices in sets if len(indices)), below)
    windows = []
    for j in candidates[:: max(len(candidates) // MAX_TILTS, 1)]:
        needed = np.maximum(cancellation[:, [j]], 0.0) - math.log(tail)
        with np.errstate(divide="ignore", invalid="ignore"):
            ends = (cumulants - cumulants[:, [j]] + needed) / (tilts - tilts[j])
        start = np.maximum(ends[:, :j].max(axis=1, initial=-np.inf), low).min()
        end = np.minimum(ends[:, j + 1 :].min(axis=1, initial=np.inf), high).max()
        span = min(float(start), 0.0), float(end)
        windows.append(PldWindow(float(tilts[j]), *span, steps, delta, ranges))
    widest = WIDTH_MARGIN * min(window.width for window in windows)
    if candidates is below:  # a wide window is accepted for less cancellation
        widest = max(widest, MAX_WIDTH)
    return [window for window in windows if window.width <= widest][-1]


def _truncated_cumulants(
    losses: Sequence[PrivacyCurve], ranges: Floats, tilts: Floats
) -> Floats:
    """Returns about K of a step of each phase, from losses within its range; [P, J].

    0 where the range is too narrow for a grid, or too wide.
    """
    cumulants = np.zeros((len(losses), len(tilts)))
    narrowest = MIN_SPACING * TRUNCATED_POINTS
    for phase, (loss, (low, high)) in enumerate(zip(losses, ranges, strict=True)):
        if high < MAX_LOSS and high - low > narrowest:
            grid = np.linspace(low, high, TRUNCATED_POINTS)
            masses = np.maximum(pessimistic_masses(loss, grid)[0], 0.0)
            cumulants[phase] = log_moments(grid, masses, tilts)
    return cumulants


def _epsilon_floors(
    losses: Sequence[PrivacyLoss], counts: Floats, delta: float
) -> Floats:
    """Returns the largest ε at which the δ of one phase's steps add up to delta; [T].

    For a single step it is a lower bound on ε.  For several steps it is nearer to ε but
    may exceed it, so it only places a grid.
    """
    return np.array(
        [
            max(
                loss.loss_range(delta / n)[1]
                for loss, n in zip(losses, row, strict=True)
                if n
            )
            for row in counts
        ]
    )


def _relative_gap(lower: Floats, upper: Floats) -> Floats:
    """Returns 1 - lower / upper: 1 for an infinite upper bound, 0 for ε = 0; [T]."""
    with np.errstate(invalid="ignore", divide="ignore"):
        gap = 1 - lower / upper
    return np.where(np.isinf(upper), 1.0, np.where(upper <= 0, 0.0, gap))


def _worth_refining(gaps: list[Floats], points: int) -> npt.NDArray[np.bool_]:
    """Returns True for rows whose gap a grid of this size may close; keeps their gaps.

    The finest grid takes longer than all others together.  It is left out where the
    gap, falling by the last factor again, would not close.

    Args:
        gaps: Gap of each row after each refinement; other rows are removed in place.
        points: Size of the grid.
    """
    worth = gaps[-1] > TOLERANCES.discretized_gap
    if points == FFT_SIZES[-1] and len(gaps) > 2:
        worth &= gaps[-1] ** 2 <= TOLERANCES.discretized_gap * gaps[-2]
    gaps[:] = [gap[worth] for gap in gaps]
    return worth


def _grid_sizes(curves: int, steps: float, refinements: int) -> list[int]:
    """Returns the sizes of grids to try, from the smallest that is large enough.

    Args:
        curves: Number of rows times phases, which limits the largest size.
        steps: Largest number of steps.
        refinements: Largest number of grids.
    """
    sizes = FFT_SIZES[: refinements + 1]
    enough = [size for size in sizes if spare_points(steps) < size // 2]
    return [size for size in enough[:refinements] if size * curves <= MAX_POINTS]

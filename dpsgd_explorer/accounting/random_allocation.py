"""ε of random allocation: in each epoch, each record draws one of t slots afresh.

A step uses the records of one slot, so that each record is used once per epoch, and
batch sizes are Binomial(N, 1/t).  The bounds on the curve of one epoch
(``exact.random_allocation``) are composed on a grid of losses.  The grids are refined
until the bounds on ε meet.

Where no grid is large enough, the upper bound is that of known slots: one Gaussian step
per epoch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpsgd_explorer.accounting.core import validation
from dpsgd_explorer.accounting.core.accountant import Floats
from dpsgd_explorer.accounting.core.gaussian import epsilon_of_mu
from dpsgd_explorer.accounting.core.intervals import Interval, interval
from dpsgd_explorer.accounting.core.root_finding import ROOT_TOLERANCE, first_safe
from dpsgd_explorer.accounting.core.tolerances import TOLERANCES
from dpsgd_explorer.accounting.exact.discretized_pld import DiscretizedPlds
from dpsgd_explorer.accounting.exact.pld_bounds import FFT_SIZES, choose_window
from dpsgd_explorer.accounting.exact.privacy_loss import Direction
from dpsgd_explorer.accounting.exact.random_allocation import (
    AllocationCurve,
    Epoch,
    Grid,
    SlotSums,
)

#: Spacing of each grid of the lognormal, as a share of its width.
FINENESS = (0.4, 0.1, 0.025, 0.00625)
#: Largest number of points of the grid of a sum.
MAX_POINTS = 1 << 21
#: Noise multiplier below which the lognormal needs too many points.
MIN_NOISE = 0.1
#: Share of δ that the largest values of the lognormal may add.
TAIL_SHARE = 1e-5
#: Share of δ above which the error of doubles is too large.
MAX_ERROR_SHARE = 1e-4
#: Tilts that are tried for the grid of losses.
TILTS = np.geomspace(0.05, 400.0, 80)
#: Largest number of slots of an epoch, and of epochs.
MAX_SLOTS, MAX_EPOCHS = 1_000_000, 100_000
DIRECTIONS: tuple[Direction, ...] = ("remove", "add")


def random_allocation_epsilon(
    *, noise_multiplier: float, slots: int, epochs: int, delta: float
) -> float:
    """Returns the epsilon of random allocation for one record added or removed.

    Each record draws one of ``slots`` steps in each epoch, afresh and independently:

    >>> run = {"noise_multiplier": 1.1, "slots": 234, "epochs": 1}
    >>> round(random_allocation_epsilon(**run, delta=1e-5), 4)
    0.2717

    Poisson sampling at the same rate has a larger epsilon here, 0.307.

    Args:
        noise_multiplier: Noise std over the clipping bound; 0 gives infinity.
        slots: Steps of an epoch t, at least 1.
        epochs: At least 0.
        delta: In (0, 1).

    Raises:
        AccountingError: an argument is outside its domain.

    Source: Feldman and Shenfeld (2025), arXiv:2502.08202.
    """
    count = validation.whole("epochs", epochs, 0, MAX_EPOCHS)
    length = validation.whole("slots", slots, 1, MAX_SLOTS)
    return float(
        random_allocation_interval(
            noise_multiplier=noise_multiplier,
            slots=length,
            steps=count * length,
            delta=delta,
        )
    )


def random_allocation_interval(
    *, noise_multiplier: float, slots: int, steps: int, delta: float
) -> Interval:
    """Returns the interval of ε after a number of steps, within an epoch too.

    >>> spent = random_allocation_interval(
    ...     noise_multiplier=2.0, slots=12, steps=360, delta=1e-5
    ... )
    >>> spent.status, round(float(spent), 3)
    ('exact', 3.585)

    Args:
        noise_multiplier: Noise std over the clipping bound; 0 gives infinity.
        slots: Steps of an epoch t, at least 1.
        steps: Completed steps, at least 0.
        delta: In (0, 1).

    Returns:
        Both bounds.  Their status is "bound" where they do not meet, for little noise
        with many slots.

    Raises:
        AccountingError: an argument is outside its domain.

    Source: as ``random_allocation_epsilon``.
    """
    sigma = validation.noise_multiplier(noise_multiplier)
    length = validation.whole("slots", slots, 1, MAX_SLOTS)
    done = validation.whole("steps", steps, 0, MAX_SLOTS * MAX_EPOCHS)
    target = validation.delta(delta)
    if done == 0:
        return interval(0.0, 0.0)
    if sigma == 0:
        return interval(math.inf, math.inf)
    epochs, rest = divmod(done, length)
    known = epsilon_of_mu(target, math.sqrt(epochs + (rest > 0)) / sigma)
    if length == 1 or sigma < MIN_NOISE:
        lower = known * (1 - TOLERANCES.closed_form) if length == 1 else 0.0
        return interval(lower, known)
    phases = [(Epoch(sigma, length, length), epochs), (Epoch(sigma, length, rest), 1)]
    lower, upper = _bounds(
        [phase for phase in phases if phase[1] and phase[0].done], target, known
    )
    return interval(min(lower, upper, known), min(upper, known))


def _bounds(
    phases: Sequence[tuple[Epoch, int]], delta: float, most: float
) -> tuple[float, float]:
    """Returns lower and upper bounds on ε, refined until they meet.

    Args:
        phases: Epochs, and how often each is repeated.
        delta: In (0, 1).
        most: A larger ε.
    """
    total = sum(count for _, count in phases)
    curves: dict[int, list[dict[Direction, AllocationCurve]]] = {}
    lower, upper = 0.0, math.inf
    for fineness, points in zip(FINENESS, FFT_SIZES, strict=True):
        grids = [each.grid(fineness, TAIL_SHARE * delta / total) for each, _ in phases]
        if max(grid.period for grid in grids) <= MAX_POINTS:
            pairs = [
                (each, grid) for (each, _), grid in zip(phases, grids, strict=True)
            ]
            curves = {
                s: [_curves(*pair, s, delta / total) for pair in pairs] for s in (1, -1)
            }
        elif not curves or total == 1:
            break
        lows, highs = [], []
        for direction in DIRECTIONS:
            smaller, larger = ([one[direction] for one in curves[s]] for s in (-1, 1))
            if total == 1:
                lows.append(_single_epsilon(smaller[0], delta, most))
                highs.append(_single_epsilon(larger[0], delta, most))
            else:
                counts = np.array([float(count) for _, count in phases])
                lows.append(_composed_epsilon(smaller, counts, delta, points))
                highs.append(_composed_epsilon(larger, counts, delta, points))
        lower, upper = max(lower, *lows), min(upper, max(highs))
        if upper < math.inf and upper - lower <= TOLERANCES.discretized_gap * upper:
            break
    return lower, upper


def _curves(
    epoch: Epoch, grid: Grid, sign: int, delta: float
) -> dict[Direction, AllocationCurve]:
    """Returns bounds on the curves of an epoch, for about delta."""
    sums = SlotSums(epoch, grid, sign)
    curves = sums.curves()
    if max(curve.error for curve in curves.values()) > MAX_ERROR_SHARE * delta:
        return sums.curves(long_double=True)
    return curves


def _single_epsilon(curve: AllocationCurve, delta: float, most: float) -> float:
    """Returns the ε at which the bound on δ is delta, on the safe side."""

    def excess(epsilon: float) -> float:
        return float(curve.deltas(np.array([epsilon]))[0]) - delta

    if excess(0.0) <= 0:
        return 0.0
    if excess(most) > 0:
        return math.inf if curve.sign > 0 else most
    root = first_safe(excess, 0.0, most, ROOT_TOLERANCE)
    return root if curve.sign > 0 else max(root - 4 * ROOT_TOLERANCE * (1 + root), 0.0)


def _composed_epsilon(
    curves: Sequence[AllocationCurve], counts: Floats, delta: float, points: int
) -> float:
    """Returns the bound on ε of all epochs; without a bound, infinity or 0."""
    sign = curves[0].sign
    nothing = math.inf if sign > 0 else 0.0
    no_cumulants = np.full((1, len(TILTS)), np.inf)
    window = choose_window(
        curves, counts[None], delta, np.zeros(1), TILTS, no_cumulants
    )
    plds = DiscretizedPlds(curves, window, points)
    if not plds.is_usable:
        return nothing
    tail = plds.upper_tail(counts) if sign > 0 else plds.lower_tail(counts)
    return tail.epsilon(delta)

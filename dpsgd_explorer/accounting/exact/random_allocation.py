"""Bounds on the privacy curve of an epoch in which each record draws one of t slots.

Without the record, every slot's statistic is Gaussian noise, and the likelihood ratio
of the epoch is the mean S of t independent lognormals of mean 1,

    W = e^(z/σ - 1/(2σ²)), z ~ N(0, 1),

one for each slot.  After j of t slots, the other t - j lognormals are 1.  For ε of
either sign, with k = e^ε,

    remove: δ(ε) = E[(S - k)_+],    add: δ(ε) = E[(1 - kS)_+].

Both are expectations of convex functions of every W.  So a distribution of W that is
larger in convex order gives a larger curve, and a smaller one a smaller curve.  Both
are placed on the points of an even grid, where the sum of j copies is a power of one
Fourier transform.  The function C(w) = E[(W - w)_+] decides the order:

- **larger**: the chords of C between the points;
- **smaller**: the largest convex function below the chords less their errors.

Of the part of W above the last point, w_n, the larger distribution leaves out the
excess; it adds at most C(w_n) to δ.

- **Period.**  The transform folds sums beyond its N points onto others.  Chernoff's
  inequality bounds the mass of these sums.
- **Round-off** is assumed as for any power of a Fourier transform
  (``discretized_pld``).

Source: Feldman and Shenfeld (2025), arXiv:2502.08202, for the likelihood ratio; Shaked
and Shanthikumar (2007), "Stochastic Orders", chapter 3, for the order.

Notation: n + 1 points of the grid of W, N points of the grid of the sum, K values of ε.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dpsgd_explorer.accounting.core.accountant import Floats
from dpsgd_explorer.accounting.core.fourier import log_moments
from dpsgd_explorer.accounting.core.gaussian import deltas_of_mu, epsilon_of_mu
from dpsgd_explorer.accounting.core.tolerances import (
    MACHINE_EPSILON,
    MAX_EXPONENT,
    TOLERANCES,
)
from dpsgd_explorer.accounting.exact.discretization import MIN_SLOPE_CHANGE
from dpsgd_explorer.accounting.exact.privacy_loss import Direction

#: Exponents θN·spacing of Chernoff's bound on the mass beyond the period, and groups of
#: points for its moments.
CHERNOFF_EXPONENTS, MOMENT_GROUPS = np.geomspace(10.0, 1e6, 40), 2000
#: Standard deviations of the sum in a period, in addition to its mean and one W.
PERIOD_DEVIATIONS = 14.0


@dataclass(frozen=True)
class Grid:
    """Points at equal distances, for W and for the sum of W over the slots.

    Attributes:
        spacing: Distance of the points.
        count: Number n of intervals of the grid of W, from 0 to n times the spacing.
        low: Index of the first point of the grid of the sum.
        period: Number N of points of the grid of the sum, or a little less.
    """

    spacing: float
    count: int
    low: int
    period: int

    def points(self, number: int, first: int = 0) -> Floats:
        """Returns points from an index on; [number]."""
        indices = np.arange(first, first + number)
        return np.asarray(self.spacing * indices, dtype=np.float64)


@dataclass(frozen=True)
class Epoch:
    """The first j of t slots, each with Gaussian noise.

    Attributes:
        noise_multiplier: σ, noise std over the sensitivity.
        slots: Number t of slots of an epoch.
        done: Number j of slots, from 1 to t.
    """

    noise_multiplier: float
    slots: int
    done: int

    @property
    def deviation(self) -> float:
        """Standard deviation of W."""
        return math.sqrt(math.expm1(min(self.noise_multiplier**-2, MAX_EXPONENT)))

    def excess(self, points: Floats) -> Floats:
        """Returns C(w) = E[(W - w)_+] at each point w > 0; [n] -> [n]."""
        return deltas_of_mu(np.log(points), 1 / self.noise_multiplier)

    def curve(self, points: Floats) -> Floats:
        """Returns C(w) above 1, else E[(w - W)_+] = C(w) - 1 + w; [n] -> [n].

        Both keep their digits: E[(w - W)_+] = w C(1 / w).
        """
        values = np.zeros_like(points)
        above, below = points > 1, (points > 0) & (points <= 1)
        values[above] = self.excess(points[above])
        values[below] = points[below] * self.excess(1 / points[below])
        return values

    def grid(self, fineness: float, tail: float) -> Grid:
        """Returns a grid on which E[(W - w)_+] is at most tail above the last point.

        Args:
            fineness: Spacing, as a share of the width of W's distribution.
            tail: In (0, 1).
        """
        sigma = self.noise_multiplier
        bulk = math.exp(-0.5 / sigma**2) * math.expm1(1 / sigma)  # near its median
        spacing = fineness * min(self.deviation, bulk)
        last = math.exp(min(epsilon_of_mu(tail, 1 / sigma), MAX_EXPONENT))
        count = math.ceil(last / spacing) + 1
        spread = PERIOD_DEVIATIONS * self.deviation * math.sqrt(self.done)
        low = max(math.floor((self.done - spread) / spacing), 0)
        high = math.ceil((self.done + spread + 1.5 * last) / spacing)
        return Grid(spacing, count, low, high - low + count)


def larger_masses(epoch: Epoch, grid: Grid) -> tuple[Floats, float]:
    """Returns masses of a distribution on the grid that is larger than min(W, w_n).

    Returns:
        Probabilities of the points, [n + 1], and C(w_n).
    """
    points = grid.points(grid.count + 1)
    curve = epoch.curve(points)
    return _masses(*_slopes(points, curve)), float(curve[-1])


def smaller_masses(epoch: Epoch, grid: Grid) -> Floats | None:
    """Returns masses of a distribution on the grid that is smaller than W; [n + 1].

    A line between two points below C less the chord's error is below C.  The curve of a
    distribution of mean 1 on [0, ∞) begins with slope -1 at 1, and ends at 0.  So the
    line 1 - w is followed to the first point from which on it is below the lowered
    curve, and the curve is 0 from the last point before it becomes negative.

    Returns:
        Probabilities, or None if the grid is too coarse.
    """
    fine: Floats = 0.5 * grid.points(2 * grid.count + 1)
    values = epoch.curve(fine)
    changes = np.maximum(_masses(*_slopes(fine, values)), MIN_SLOPE_CHANGE)
    halves = 0.5 * grid.spacing / (1 / changes[:-1] + 1 / changes[1:])
    errors = grid.spacing * changes[1::2] / 4 + np.maximum(halves[::2], halves[1::2])
    errors = np.maximum(np.append(errors, 0.0), np.insert(errors, 0, 0.0))
    points, curve = fine[::2], values[::2]
    lowered = curve * (1 - TOLERANCES.few_operations) - errors
    below = _last_below(points)
    negative = np.flatnonzero(lowered < 0)
    left, right = negative[negative <= below], negative[negative > below]
    first = int(left[-1]) + 1 if len(left) else 0
    last = int(right[0]) - 1 if len(right) else grid.count
    if first > below or last <= below:
        return None
    lowered[: first + 1], lowered[last:] = 0.0, 0.0
    near, far = _slopes(points, lowered)
    near = _isotonic(near)
    far = _isotonic(far)
    if len(near) and far[0] < near[-1] - 1:  # not convex between the two parts
        slopes = _isotonic(np.append(near - 1, far))
        near, far = slopes[:below] + 1, slopes[below:]
    return _masses(near, far)


def _isotonic(slopes: Floats) -> Floats:
    """Returns slopes of the largest convex function below a line of even intervals."""
    from scipy.optimize import isotonic_regression  # its import takes 0.3 s

    convex: Floats = isotonic_regression(slopes).x if len(slopes) else slopes
    return convex


def _last_below(points: Floats) -> int:
    """Returns the index of the last point of at most 1."""
    return int(np.searchsorted(points, 1.0, side="right")) - 1


def _slopes(points: Floats, curve: Floats) -> tuple[Floats, Floats]:
    """Returns slopes of C between the points, plus 1 for points of at most 1.

    Args:
        points: From 0 on.
        curve: Values as of ``Epoch.curve``.
    """
    below = _last_below(points)
    far = curve[below:].copy()
    far[0] += 1 - points[below]
    widths = np.diff(points)
    near = np.diff(curve[: below + 1]) / widths[:below]
    return near, np.diff(far) / widths[below:]


def _masses(near: Floats, far: Floats) -> Floats:
    """Returns the changes of slope, from -1 to 0; arguments as of ``_slopes``."""
    last = near[-1] if len(near) else 0.0
    middle = [far[0] + 1 - last]
    changes = (np.diff(near, prepend=0.0), middle, np.diff(far, append=0.0))
    return np.maximum(np.concatenate(changes), 0.0)


@dataclass(frozen=True)
class AllocationCurve:
    """A bound on the privacy curve of an epoch, in one direction.

    Attributes:
        losses: Privacy losses of the discrete distribution, ascending, [N].
        masses: Their probabilities, [N].
        inverse_ratios: E^-loss; 0 for an infinite loss, and where the mass is 0, [N].
        error: Bound on folding and round-off.
        infinite: Probability that is added to δ.
        sign: 1 for an upper bound, -1 for a lower bound.
    """

    losses: Floats
    masses: Floats
    inverse_ratios: Floats
    error: float
    infinite: float
    sign: int

    @cached_property
    def _tails(self) -> Floats:
        """Sums of masses from each loss on, under P and under Q, [2, N + 1]."""
        terms = np.array([self.masses, self.masses * self.inverse_ratios])
        sums = np.cumsum(terms[:, ::-1], axis=1)[:, ::-1]
        return np.append(sums, np.zeros((2, 1)), axis=1)

    def deltas(self, epsilons: Floats) -> Floats:
        """Returns the bound on δ at each ε of either sign; [K] -> [K]."""
        index = np.searchsorted(self.losses, epsilons, side="right")
        ratios = np.exp(np.minimum(epsilons, MAX_EXPONENT))
        p_tails, q_tails = self._tails[:, index]
        bound = p_tails - ratios * q_tails + self.infinite + self.sign * self.error
        least = np.maximum(-np.expm1(epsilons), 0.0)
        return np.asarray(np.clip(bound, least, 1.0), dtype=np.float64)

    def loss_range(self, tail: float) -> tuple[float, float]:
        """Returns losses (low, high) with P(ℓ < low) <= tail and δ(high) <= tail.

        The error of the bound is not counted: no range makes it smaller.
        """
        below = np.cumsum(np.maximum(self.masses, 0.0))
        first = int(np.searchsorted(below, tail + self.error))
        finite = self.losses[np.isfinite(self.losses)]
        least = tail + self.infinite + 2 * self.error
        last = bisect_left(
            range(len(finite)),
            True,
            key=lambda i: self.deltas(finite[i : i + 1])[0] <= least,
        )
        low = self.losses[min(first, len(finite) - 1)]
        return float(low), float(finite[min(last, len(finite) - 1)])


class SlotSums:
    """The sum of the W of an epoch's slots, on a grid.

    Long doubles are used where the precision of doubles is too low.
    """

    def __init__(self, epoch: Epoch, grid: Grid, sign: int) -> None:
        """Places W on the grid.

        Args:
            epoch: The epoch.
            grid: Points for W and for the sum.
            sign: 1 for upper bounds on the curves, -1 for lower bounds.

        Raises:
            ValueError: The grid is too coarse for a lower bound.
        """
        import scipy.fft  # its import takes 0.1 s

        period = scipy.fft.next_fast_len(grid.period, real=True)
        self.epoch, self.grid, self.sign = epoch, replace(grid, period=period), sign
        self._excess = 0.0
        if sign > 0:
            self._masses, self._excess = larger_masses(epoch, grid)
        else:
            smaller = smaller_masses(epoch, grid)
            if smaller is None:
                raise ValueError("spacing must be smaller than the width of W")
            self._masses = smaller
        self._points = grid.points(grid.count + 1)  # [n + 1]

    def curves(self, *, long_double: bool = False) -> dict[Direction, AllocationCurve]:
        """Returns the bound on the curve in each direction.

        With the record, the W of its slot has the masses w P(W = w).
        """
        import scipy.fft  # its import takes 0.1 s

        number = np.longdouble if long_double else np.float64
        done, period = self.epoch.done, self.grid.period
        transform = scipy.fft.rfft(self._masses.astype(number), period)
        drawn = scipy.fft.rfft((self._masses * self._points).astype(number), period)
        without = scipy.fft.irfft(transform**done, period).astype(float)
        with_slot = scipy.fft.irfft(transform ** (done - 1) * drawn, period)
        rest = self.epoch.slots - done
        with_record = (
            rest * without + done * with_slot.astype(float)
        ) / self.epoch.slots
        ratios = (rest + self.grid.points(period, self.grid.low)) / self.epoch.slots
        with_record = np.roll(with_record, -self.grid.low)
        without = np.roll(without, -self.grid.low)
        with np.errstate(divide="ignore"):
            losses = np.log(ratios)
            inverse = np.where(ratios > 0, 1 / ratios, 0.0)
        per_step = (
            TOLERANCES.fft_per_step * float(np.finfo(number).eps) / MACHINE_EPSILON
        )
        assumed = per_step * (done + 2) * math.sqrt(period)
        folded = self._folded_mass() + TOLERANCES.few_operations

        def curve(
            masses: Floats, losses: Floats, inverse: Floats, excess: float
        ) -> AllocationCurve:
            error = folded + assumed * math.sqrt(float(masses @ masses))
            return AllocationCurve(losses, masses, inverse, error, excess, self.sign)

        return {
            "remove": curve(with_record, losses, inverse, self._excess),
            "add": curve(without[::-1], -losses[::-1], ratios[::-1], 0.0),
        }

    def _folded_mass(self) -> float:
        """Returns Chernoff's bound on the mass outside the period.

        Above it, the mass with the record is larger than the mass without, and below it
        smaller.  The moments use the larger ends of groups of points.
        """
        grid, done = self.grid, self.epoch.done
        ends = np.unique(np.geomspace(1, len(self._masses), MOMENT_GROUPS).astype(int))
        starts = np.append(0, ends[:-1])
        masses = np.add.reduceat(self._masses, starts)
        most, least = self._points[ends - 1], self._points[starts]
        shifts = CHERNOFF_EXPONENTS / (grid.spacing * grid.period)
        each = log_moments(most, masses, shifts)
        drawn = log_moments(most, masses * most, shifts)
        above = (done - 1) * each + np.maximum(drawn, each)
        above -= shifts * grid.spacing * (grid.low + grid.period)
        folded = math.exp(min(float(above.min()), 0.0))
        if grid.low:
            below = done * log_moments(least, masses, -shifts)
            below += shifts * grid.spacing * grid.low
            folded += math.exp(min(float(below.min()), 0.0))
        return folded

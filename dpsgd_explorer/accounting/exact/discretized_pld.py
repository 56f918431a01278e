"""Discretised privacy loss distributions (PLDs) of a composition, on one grid.

Every step's privacy curve is replaced by a pessimistic one, which is nowhere smaller,
and by an optimistic one, which is nowhere larger (``discretization``).  Compositions of
larger curves are larger.  Discrete losses of a composition are sums of the steps', so
their distribution is a convolution: one Fourier transform per phase, taken to the power
of its number of steps, and one inverse transform.

- **Tilt.**  A Fourier transform is exact relative to the largest mass.  The masses are
  weighted with e^(cℓ) first, so that the masses near ε are among the largest.
- **Period.**  The transform folds sums beyond its period of N points onto others.
  Chernoff's inequality bounds the mass of these sums.

Source: pessimistic PLDs: Doroshenko et al. (2022), "Connect the Dots",
arXiv:2207.04380.  Differs: the optimistic PLDs, the tilt, the bound on folding.

Notation: P phases, J tilts of moments, K points of a step's grid, N points of a period.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dpsgd_explorer.accounting.core.accountant import Floats
from dpsgd_explorer.accounting.core.fourier import Complexes, log_moments
from dpsgd_explorer.accounting.core.tolerances import MAX_EXPONENT, TOLERANCES
from dpsgd_explorer.accounting.exact.discretization import (
    MAX_LOG,
    CompositionTail,
    optimistic_masses,
    pessimistic_masses,
)
from dpsgd_explorer.accounting.exact.privacy_loss import PrivacyCurve

#: Distance from a point, as a share of the spacing, up to which the end of a range
#: counts as that point.
SNAP_DISTANCE = 1e-6
#: Smallest log of a mass of a step's grid, instead of -infinity.
MIN_LOG_MASS = -1e300
#: Smallest size of a transform, so that it has a logarithm.
MIN_SIZE = 1e-300
#: Largest loss of one step: its exponential, and the square of that, are floats.
MAX_LOSS = 300.0
#: Smallest spacing: neighbouring losses still have different exponentials.
MIN_SPACING = 1e-13
#: Largest log of the tilted masses near ε over δ, as a share of MAX_LOG.
CANCELLATION_SHARE = 0.9
#: Shifts of the tilt at which moments bound the folded mass: times the period, upwards
#: and downwards, and as shares of the tilt, downwards.
SHIFTS_PER_PERIOD = np.array([20.0, 30.0, 45.0, 70.0, 100.0, 150.0])
SHIFTS_PER_TILT = np.array([0.1, 0.2, 0.35, 0.5, 0.75, 1.0])


@dataclass(frozen=True)
class PldWindow:
    """The losses of a composition that a grid covers, and the tilt of its masses.

    Attributes:
        tilt: c of the weights e^(cℓ).
        low: Loss below which sums may be folded over.
        high: Loss above which sums may be folded over.
        steps: Largest number of steps of a composition.
        delta: About the δ of interest, or less.
        ranges: Losses (low, high) of one step of each phase, without the tail, [P, 2].
    """

    tilt: float
    low: float
    high: float
    steps: int
    delta: float
    ranges: Floats

    @property
    def width(self) -> float:
        """The length of the window, in units of ε."""
        return self.high - self.low


@dataclass(frozen=True)
class TiltedPld:
    """One step's discretised PLD, its masses weighted with e^(cℓ) and normalised.

    Attributes:
        first: Index of the first loss, in multiples of the spacing.
        grid: Losses, [K].
        masses: Tilted probabilities of the losses; their sum is 1, [K].
        log_transform: Logarithm of the masses' Fourier transform, [N / 2 + 1].
        log_total: Log of the sum of the masses before they were divided by it.
        infinite: Probability of an infinite loss.
        shifts: Tilts less c at which moments are needed, [J].
    """

    first: int
    grid: Floats
    masses: Floats
    log_transform: Complexes
    log_total: float
    infinite: float
    shifts: Floats

    @property
    def last(self) -> int:
        """Index of the last loss, in multiples of the spacing."""
        return self.first + len(self.grid) - 1

    @cached_property
    def log_moments(self) -> Floats:
        """Log of the sum of masses times e^(shift ℓ), [J]."""
        return log_moments(self.grid, np.maximum(self.masses, 0.0), self.shifts)


class DiscretizedPlds:
    """The pessimistic and the optimistic PLD of each phase on one grid.

    Attributes:
        points: Number N of points of a period.
        is_usable: If True, tails can be computed.  If False, there are too few points,
            or losses are too large or too near each other for floats.
    """

    def __init__(
        self, losses: Sequence[PrivacyCurve], window: PldWindow, points: int
    ) -> None:
        """Places the grid, and discretises the pessimistic curves.

        Args:
            losses: Privacy loss of one step of each phase.
            window: Losses to cover.
            points: Number N of points of a period.
        """
        ranges = window.ranges
        low, high = float(ranges[:, 0].min()), float(ranges[:, 1].max())
        width = max(window.width, high - low)
        spare = spare_points(window.steps)
        self.is_usable = width > 0 and high < MAX_LOSS and spare < points // 2
        if not self.is_usable:
            return
        self.tilt, self.points, self.delta = window.tilt, points, window.delta
        self.spacing = width / (points - spare)
        self.is_usable = MIN_SPACING < self.spacing < MAX_EXPONENT / points
        if not self.is_usable:
            return
        self.low = math.floor(window.low / self.spacing) - spare // 2
        up = SHIFTS_PER_PERIOD / (self.spacing * points)
        down = np.minimum(np.append(up, self.tilt * SHIFTS_PER_TILT), self.tilt)
        self.shifts = np.append(up, -down)
        # A curve may have a kink at the end of its range, so a grid point is placed
        # there.  If all ranges are symmetric, a point is at 0, where most losses are at
        # tiny sample rates.
        ends = (end for span in ranges if span.sum() for end in span)
        kink = min(ends, key=abs, default=0.0)
        self.offset = float(kink) % self.spacing
        self._grids: list[tuple[PrivacyCurve, int, Floats]] = []
        for loss, ends in zip(losses, ranges, strict=True):
            start, stop = (ends - self.offset) / self.spacing
            first = math.floor(start + SNAP_DISTANCE) - 1
            last = math.ceil(stop - SNAP_DISTANCE) + 1
            grid = self.offset + self.spacing * np.arange(first, last + 1)  # [K]
            self._grids.append((loss, first, grid))
        self.is_usable = all(step.masses.any() for step in self._pessimistic)

    def upper_tail(self, counts: Floats) -> CompositionTail:
        """Returns upper bounds on δ after counts[i] steps of phase i; counts [P]."""
        return self._tail(self._pessimistic, counts, 1)

    def lower_tail(self, counts: Floats) -> CompositionTail:
        """Returns lower bounds on δ after counts[i] steps of phase i; counts [P]."""
        return self._tail(self._optimistic, counts, -1)

    @cached_property
    def _pessimistic(self) -> list[TiltedPld]:
        return [
            self._tilted(first, grid, *pessimistic_masses(loss, grid))
            for loss, first, grid in self._grids
        ]

    @cached_property
    def _optimistic(self) -> list[TiltedPld]:
        return [
            self._tilted(first, grid, optimistic_masses(loss, grid), 0.0)
            for loss, first, grid in self._grids
        ]

    def _tilted(
        self, first: int, grid: Floats, probabilities: Floats, infinite: float
    ) -> TiltedPld:
        """Returns one step's PLD with tilted masses; [K], [K]."""
        with np.errstate(divide="ignore"):
            logs = np.log(np.abs(probabilities)) + self.tilt * grid
        top = max(float(logs.max()), MIN_LOG_MASS)
        masses = np.sign(probabilities) * np.exp(logs - top)
        total = float(masses.sum())
        if total <= 0:  # nothing but round-off
            masses, total = np.zeros_like(grid), 1.0
        masses /= total
        transform = np.fft.rfft(masses, self.points)
        sizes = np.log(np.maximum(np.abs(transform), MIN_SIZE))
        return TiltedPld(
            first,
            grid,
            masses,
            sizes + 1j * np.angle(transform),
            math.log(total) + top,
            infinite,
            self.shifts,
        )

    def _tail(
        self, phases: Sequence[TiltedPld], counts: Floats, sign: int
    ) -> CompositionTail:
        """Returns the tail masses of the composition at losses of at least 0.

        The tilt is undone relative to the first loss of the tail, so that the weights
        do not underflow before ε.
        """
        steps = int(counts.sum())
        least = int(counts @ np.array([step.first for step in phases]))
        most = int(counts @ np.array([step.last for step in phases]))
        start = max(least, self.low)
        end = start + self.points - 1
        masses = np.roll(self._convolved(phases, counts), least - start)
        root = math.sqrt(float(masses @ masses))
        round_off = TOLERANCES.fft_per_step * (steps + 2) * root
        origin = self.spacing * start + steps * self.offset
        # Points before `first` are dropped: losses below 0, and losses so far below
        # Chernoff's bound on ε, (K(c) - log δ) / c, that the weights would underflow.
        log_total = float(counts @ np.array([step.log_total for step in phases]))
        least_scale = math.log(self.delta) + CANCELLATION_SHARE * MAX_LOG
        dropped = max((log_total - least_scale) / self.tilt, 0.0) - origin
        first = max(math.floor(dropped / self.spacing), 0)
        first = min(first, self.points - 2)
        origin += first * self.spacing
        offsets: Floats = np.asarray(self.spacing * np.arange(self.points - first))
        weights = np.exp(-self.tilt * offsets)
        folded = 0.0
        if least < start:
            folded += self._mass_beyond(phases, counts, start, self.shifts < 0)
        if most > end:
            folded += self._mass_beyond(phases, counts, end, self.shifts > 0)
        untilted = masses[first:] * weights
        squares = np.cumsum((weights * weights)[::-1])[::-1]
        infinite = np.array([min(step.infinite, 0.5) for step in phases])
        return CompositionTail(
            sign=sign,
            origin=origin,
            offsets=offsets,
            p_tails=np.cumsum(untilted[::-1])[::-1],
            q_tails=np.cumsum((untilted * np.exp(-offsets))[::-1])[::-1],
            # Cauchy-Schwarz: a weighted sum of the masses' round-off.
            error_bounds=folded * weights + round_off * np.sqrt(squares),
            log_scale=log_total - self.tilt * origin,
            infinite=-math.expm1(float(counts @ np.log1p(-infinite))),
        )

    def _convolved(self, phases: Sequence[TiltedPld], counts: Floats) -> Floats:
        """Returns the tilted masses of the sums, from the smallest sum on, [N]."""
        logs = np.zeros(self.points // 2 + 1, dtype=np.complex128)
        for n, step in zip(counts, phases, strict=True):
            if n:
                logs += n * step.log_transform
        return np.fft.irfft(np.exp(logs), self.points)

    def _mass_beyond(
        self,
        phases: Sequence[TiltedPld],
        counts: Floats,
        index: int,
        usable: npt.NDArray[np.bool_],
    ) -> float:
        """Returns Chernoff's bound on the tilted mass beyond a point.

        Args:
            phases: PLDs of one step of each phase.
            counts: Steps of each phase.
            index: Point of the composition's grid.
            usable: True for the shifts whose sign bounds this side, [J].
        """
        loss = self.spacing * index + float(counts.sum()) * self.offset
        moments = counts @ np.array([step.log_moments for step in phases])
        logs = moments - self.shifts * loss
        return math.exp(min(float(logs[usable].min()), 0.0))


def spare_points(steps: float) -> int:
    """Returns the number of points needed beyond the window.

    Each step's grid extends two points beyond the step's range, on either side.
    """
    return 4 * int(steps) + 8

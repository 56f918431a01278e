"""ε and δ of a composition from discrete losses, from below and from above.

For few steps on tiny samples the contour integral needs too many frequencies.  Then
every step's privacy curve is replaced by one that is nowhere smaller, and by one that
is nowhere larger, both with corners on a lattice in ε (``corners``): compositions of
larger curves are larger.  Discrete losses add up by Fourier transforms of their
probabilities; these are weighted with e^(cℓ), so that the round-off is small beside δ.
What a period of the transform folds over is bounded by Chernoff's inequality.  Both
curves are off by the square of the spacing.

Source: discrete losses from above: Doroshenko et al. (2022), "Connect the Dots",
arXiv:2207.04380.  Differs: the curve from below, the weights, the bound on folding.

Notation: P phases, T rows (numbers of steps, or ε), J tilts, K corners, N points of a
period.
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
from dpsgd_explorer.accounting.exact.discretization import (
    LARGEST_LOG,
    CompositionTail,
    optimistic_masses,
    pessimistic_masses,
)
from dpsgd_explorer.accounting.exact.lattice_window import Window, chosen_window
from dpsgd_explorer.accounting.exact.privacy_loss import PrivacyLoss
from dpsgd_explorer.accounting.exact.tolerances import MACHINE_EPSILON

POINTS = (1 << 13, 1 << 15, 1 << 17, 1 << 19)  # of a period, one after the other
MOST_WORK = 1 << 20  # points of all rows and phases
GOAL = 9e-5  # relative gap between the sides that ends the refinement
NEAR = 1e-6  # of a spacing, by which a point on the lattice may be beside it
LEAST_LOG = -1e300
LEAST_SIZE = 1e-300  # of a transform, whose logarithm is a float
ROUND_OFF = (
    2.5 * MACHINE_EPSILON
)  # a step, of the root of the squares: twice the largest measured
LEAST_DELTA = 1e-100  # of one step, below which nothing is narrowed
WIDEST = 700.0  # period, whose exponential is a float
LARGEST = 300.0  # loss of a step, whose exponential, and its square, are floats
LEAST_SPACING = 1e-13  # of losses whose exponentials differ
SHIFTS = np.array([20.0, 30.0, 45.0, 70.0, 100.0, 150.0])  # of tilts, over the period
SHARES = np.array([0.1, 0.2, 0.35, 0.5, 0.75, 1.0])  # the same, of the tilt


@dataclass(frozen=True)
class Discrete:
    """A step's loss, weighted with e^(cℓ).

    Attributes:
        first: Point of the lattice at which the corners begin.
        corners: Losses, [K].
        shares: Weighted probabilities of the corners, [K]; their sum is 1.
        log_transform: Of the shares, its logarithm, [N / 2 + 1].
        log_total: Log of what they were divided by.
        infinite: Probability that the loss is infinite.
        shifts: Of the tilt, at which moments are asked for, [J].
    """

    first: int
    corners: Floats
    shares: Floats
    log_transform: Complexes
    log_total: float
    infinite: float
    shifts: Floats

    @property
    def last(self) -> int:
        return self.first + len(self.corners) - 1

    @cached_property
    def log_moments(self) -> Floats:
        """Log of the sum of shares times e^(shift ℓ), [J]."""
        return log_moments(self.corners, np.maximum(self.shares, 0.0), self.shifts)


def lattice_epsilons(
    losses: Sequence[PrivacyLoss],
    counts: Floats,
    delta: float,
    tilts: Floats,
    cumulants: Floats,
    refinements: int = len(POINTS),
    *,
    two_sided: bool = True,
) -> tuple[Floats, Floats]:
    """Return ε at delta after each row of steps, from below and from above.

    Shapes: counts [T, P], tilts [J], cumulants (K of each row) [T, J] -> [T], [T].

    Args:
        losses: Of one step of each phase.
        counts: Steps of each phase.
        delta: In (0, 1).
        tilts: Those that may be taken.
        cumulants: K of each row.
        refinements: How often the losses may be refined.
        two_sided: Whether the lower side is wanted; without it any upper one will do.

    Returns:
        At least 0; 0 and infinity where nothing was found.
    """
    lower, upper = np.zeros(len(counts)), np.full(len(counts), np.inf)
    other = lower if two_sided else upper  # that the upper side is to meet
    floors = _floors(losses, counts if not two_sided else np.sign(counts), delta)
    octaves = np.floor(np.log2(counts.sum(axis=1)))
    for octave in np.unique(octaves):
        rows = np.flatnonzero(octaves == octave)
        gaps = [np.ones(len(rows))]  # relative, of each refinement
        steps = float(counts[rows].sum(axis=1).max())
        for points in _points(counts.size, steps, refinements):
            rows = rows[_are_worth(gaps, points)]
            if not len(rows):
                break
            for least in (np.maximum(lower, floors), lower.copy()):
                left = rows[_gap(other[rows], upper[rows]) >= gaps[-1]]
                if not len(left):
                    break
                window = chosen_window(
                    losses, counts[left], delta, least[left], tilts, cumulants[left]
                )
                lattice = Lattice(losses, window, points)
                for row in left if lattice.useful else ():
                    high = lattice.tails_above(counts[row]).epsilon(delta)
                    upper[row] = min(upper[row], high)
                    if two_sided:
                        low = lattice.tails_below(counts[row]).epsilon(delta)
                        lower[row] = max(lower[row], low)
            gaps.append(_gap(other[rows], upper[rows]))
    return lower, upper


def _floors(losses: Sequence[PrivacyLoss], counts: Floats, delta: float) -> Floats:
    """Return the ε of each row's steps of one phase if their δ add up, [T].

    That of a single step is below the truth; that of several is nearly so, and nearer.
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


def _gap(lower: Floats, upper: Floats) -> Floats:
    """Return how far the sides are apart, relative to the upper one; [T]."""
    with np.errstate(invalid="ignore", divide="ignore"):
        gap = 1 - lower / upper
    return np.where(np.isinf(upper), 1.0, np.where(upper <= 0, 0.0, gap))


def _are_worth(gaps: list[Floats], points: int) -> npt.NDArray[np.bool_]:
    """Tell which rows a lattice of so many points may make exact; narrow gaps to them.

    The finest one takes longer than all others: it is spared where the gap, falling
    on as it fell, would not close.
    """
    worth = gaps[-1] > GOAL
    if points == POINTS[-1] and len(gaps) > 2:
        worth &= gaps[-1] ** 2 <= GOAL * gaps[-2]
    gaps[:] = [gap[worth] for gap in gaps]
    return worth


def lattice_deltas(
    losses: Sequence[PrivacyLoss],
    counts: Floats,
    epsilons: Floats,
    tilts: Floats,
    cumulants: Floats,
    refinements: int = len(POINTS),
) -> tuple[Floats, Floats]:
    """Return log δ of one row of steps at each ε, from below and from above.

    Shapes: counts [P], epsilons [T], tilts [J], cumulants [J] -> [T], [T].
    """
    done = [loss for loss, n in zip(losses, counts, strict=True) if n]
    single = np.max([loss.deltas(epsilons) for loss in done], axis=0)  # <= δ
    with np.errstate(divide="ignore"):
        lower, upper = np.log(np.maximum(single, 0.0)), np.zeros(len(epsilons))
    for row in np.flatnonzero(single > LEAST_DELTA):
        size = len(epsilons) * len(counts)
        for points in _points(size, float(counts.sum()), refinements):
            if upper[row] - lower[row] <= GOAL:
                break
            delta = math.exp(lower[row])
            window = chosen_window(
                losses, counts[None], delta, epsilons[[row]], tilts, cumulants[None]
            )
            lattice = Lattice(losses, window, points)
            if lattice.useful:
                epsilon = float(epsilons[row])
                low = lattice.tails_below(counts).log_delta(epsilon)
                high = lattice.tails_above(counts).log_delta(epsilon)
                lower[row], upper[row] = max(lower[row], low), min(upper[row], high)
    return lower, upper


def _points(curves: int, steps: float, refinements: int) -> list[int]:
    """Return the numbers of points to try, the first of which holds so many steps."""
    enough = [n for n in POINTS[: refinements + 1] if _spare(steps) < n // 2]
    return [n for n in enough[:refinements] if n * curves <= MOST_WORK]


def _spare(steps: float) -> int:
    """Return how many more are needed: each step's corners reach beyond its losses."""
    return 4 * int(steps) + 8


class Lattice:
    """Both curves of each phase on one lattice."""

    def __init__(
        self, losses: Sequence[PrivacyLoss], window: Window, points: int
    ) -> None:
        """Evaluate the curves.

        Args:
            losses: Of one step of each phase.
            window: Where the lattice is to lie.
            points: Of a period, N.

        Attribute ``useful`` tells whether they suffice.
        """
        spans = window.spans
        low, high = float(spans[:, 0].min()), float(spans[:, 1].max())
        width = max(window.width, high - low)
        free = _spare(window.steps)
        self.useful = width > 0 and high < LARGEST and free < points // 2
        if not self.useful:
            return
        self.tilt, self.points = window.tilt, points
        self.spacing = width / (points - free)
        self.useful = LEAST_SPACING < self.spacing < WIDEST / points
        if not self.useful:
            return
        self.low = math.floor(window.low / self.spacing) - free // 2
        up = SHIFTS / (self.spacing * points)
        down = np.minimum(np.append(up, self.tilt * SHARES), self.tilt)
        self.shifts = np.append(up, -down)
        edge = min(spans.flat, key=abs)  # where a curve may have a corner itself
        self.offset = float(edge) % self.spacing
        self._corners: list[tuple[PrivacyLoss, int, Floats]] = []
        for loss, span in zip(losses, spans, strict=True):
            ends = (span - self.offset) / self.spacing
            first, last = math.floor(ends[0] + NEAR) - 1, math.ceil(ends[1] - NEAR) + 1
            corners = self.offset + self.spacing * np.arange(first, last + 1)  # [K]
            self._corners.append((loss, first, corners))
        self.useful = all(step.shares.any() for step in self._above)

    @cached_property
    def _above(self) -> list[Discrete]:
        return [
            self._weighted(first, corners, *pessimistic_masses(loss, corners))
            for loss, first, corners in self._corners
        ]

    @cached_property
    def _below(self) -> list[Discrete]:
        return [
            self._weighted(first, corners, optimistic_masses(loss, corners), 0.0)
            for loss, first, corners in self._corners
        ]

    def _weighted(
        self, first: int, corners: Floats, probabilities: Floats, infinite: float
    ) -> Discrete:
        with np.errstate(divide="ignore"):
            logs = np.log(np.abs(probabilities)) + self.tilt * corners
        top = max(float(logs.max()), LEAST_LOG)
        shares = np.sign(probabilities) * np.exp(logs - top)
        total = float(shares.sum())
        if total <= 0:  # nothing but round-off
            shares, total = np.zeros_like(corners), 1.0
        shares /= total
        transform = np.fft.rfft(shares, self.points)
        sizes = np.log(np.maximum(np.abs(transform), LEAST_SIZE))
        return Discrete(
            first,
            corners,
            shares,
            sizes + 1j * np.angle(transform),
            math.log(total) + top,
            infinite,
            self.shifts,
        )

    def tails_below(self, counts: Floats) -> CompositionTail:
        """Return δ after so many steps of each phase, from below."""
        return self._tails(self._below, counts, -1)

    def tails_above(self, counts: Floats) -> CompositionTail:
        """Return δ after so many steps of each phase, from above."""
        return self._tails(self._above, counts, 1)

    def _tails(
        self, phases: Sequence[Discrete], counts: Floats, side: int
    ) -> CompositionTail:
        steps = int(counts.sum())
        least = int(counts @ np.array([x.first for x in phases]))
        most = int(counts @ np.array([x.last for x in phases]))
        start = max(least, self.low)
        sums = np.roll(self._sums(phases, counts), least - start)
        noise = ROUND_OFF * (steps + 2) * math.sqrt(float(sums @ sums))
        bottom = self.spacing * start + steps * self.offset
        useless = max(math.floor(-bottom / self.spacing), 0)  # losses below 0
        some = np.flatnonzero(sums > 2 * noise / math.sqrt(self.points))
        top = int(some[-1]) if len(some) else self.points - 1
        useless = max(useless, top - int(LARGEST_LOG / (self.tilt * self.spacing)))
        useless = min(useless, self.points - 2)
        bottom += useless * self.spacing
        heights: Floats = np.asarray(self.spacing * np.arange(self.points - useless))
        weights = np.exp(-self.tilt * heights)
        end = start + self.points - 1
        folded = self._folded(
            phases,
            counts,
            start if least < start else None,
            end if most > end else None,
        )
        scaled = sums[useless:] * weights
        squares = np.cumsum((weights * weights)[::-1])[::-1]
        log_total = float(counts @ np.array([x.log_total for x in phases]))
        finite = float(counts @ np.log1p([-min(x.infinite, 0.5) for x in phases]))
        return CompositionTail(
            sign=side,
            origin=bottom,
            offsets=heights,
            p_tails=np.cumsum(scaled[::-1])[::-1],
            q_tails=np.cumsum((scaled * np.exp(-heights))[::-1])[::-1],
            error_bounds=folded * weights + noise * np.sqrt(squares),  # Cauchy-Schwarz
            log_scale=log_total - self.tilt * bottom,
            infinite=-math.expm1(finite),
        )

    def _sums(self, phases: Sequence[Discrete], counts: Floats) -> Floats:
        """Return the weighted probabilities of the sums from the least on, [N]."""
        logs = np.zeros(self.points // 2 + 1, dtype=np.complex128)
        for n, phase in zip(counts, phases, strict=True):
            if n:
                logs += n * phase.log_transform
        return np.fft.irfft(np.exp(logs), self.points)

    def _folded(
        self,
        phases: Sequence[Discrete],
        counts: Floats,
        start: int | None,
        end: int | None,
    ) -> float:
        """Return a bound on the weighted probability before start and behind end."""
        before = self._beyond(phases, counts, start, self.shifts < 0)
        return before + self._beyond(phases, counts, end, self.shifts > 0)

    def _beyond(
        self,
        phases: Sequence[Discrete],
        counts: Floats,
        edge: int | None,
        side: npt.NDArray[np.bool_],
    ) -> float:
        """Return Chernoff's bound on the share of sums beyond a point, if any is."""
        if edge is None:
            return 0.0
        loss = self.spacing * edge + float(counts.sum()) * self.offset
        logs = counts @ np.array([x.log_moments for x in phases]) - self.shifts * loss
        return math.exp(min(float(logs[side].min()), 0.0))

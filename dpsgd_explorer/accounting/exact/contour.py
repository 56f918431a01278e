"""δ(ε) of a composition by the contour integral, with bounds on its error.

With K(s) the sum of the steps' log E_P[e^(sℓ)] and any c > 0,

    δ(ε) = E_P[(1 - e^(ε - L))_+] = (1 / 2πi) ∫ e^(K(s) - sε) / (s (s + 1)) ds

along Re s = c.  The trapezoid rule with spacing h on that line gives S(ε), and

    S(ε) = sum over all integers m of δ(ε + mp) e^(cmp),    p = 2π/h.

Every term is positive, so an infinite sum is never below δ(ε); those with m != 0 are
bounded by Chernoff's inequality at other tilts.  Four errors remain, relative to δ:

| error | bounded by | side |
|---|---|---|
| aliasing: the terms m != 0 | κ(c') e^(K(c') - c'ε) / (e^(∣c' - c∣p) - 1) | lower |
| cut-off: frequencies above U | e^(K(c) - cε) ρ(U) / (πU) | both |
| transforms of the steps | (1 + e/∣φ∣)^n - 1 times the term, e of ``Line`` | both |
| round-off | estimated: in e, and a few last places of each term | both |

Here κ(x) = x^x / (1 + x)^(1 + x), c' is any other tilt, above c for the terms with
m > 0, below it for the others, and ρ comes from ``Loss.log_decay``.

Source: the integral: Alghamdi et al. (2023), "The Saddle-Point Method in Differential
Privacy", ICML.  Differs: they expand the integrand at its saddle point;
here it is summed.

Notation: P phases, T rows (numbers of steps), J tilts, N frequencies.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpsgd_explorer.accounting.core.accountant import Floats
from dpsgd_explorer.accounting.exact.privacy_loss import EPS, Loss

Rows = slice | npt.NDArray[np.intp]

TOLERANCE = 1e-10  # of each error, relative to δ
FEW_STEPS = 50  # below which the integrand falls slowly, and this is asked instead:
FEW_TOLERANCE = 1e-6
NODES = 4096  # on average, where as many frequencies are taken as may be
MOST_FREQUENCIES = 1 << 13
LEAST_ERROR, LARGEST_ERROR = 1e-40, 1e-6  # that are asked of a transform
USELESS_TAIL = 20.0  # log of the cut-off's error over the tolerance
LARGEST_LOG = 700.0  # whose exponential is a float
EVERY = slice(None)
FEW_ROWS = 9  # from which the spacing is chosen for all


@dataclass(frozen=True)
class Sum:
    """The trapezoid sum at one ε a row, less the factor e^(K(c) - cε); all [T].

    Attributes:
        epsilons: Where.
        total: The sum, which may come out below 0 where only noise is left.
        turns: Its derivative, NaN where it was not asked for.
    """

    epsilons: Floats
    total: Floats
    turns: Floats


@dataclass(frozen=True)
class CutOff:
    """Where a sum stops.

    Attributes:
        frequency: The last one, U.
        log_decays: Bound on the logarithm of each step's transform beyond, [P].
    """

    frequency: float
    log_decays: Floats

    def decay(self, counts: Floats) -> float:
        """Return log ρ(U), of the row in which it is largest; [T, P] -> ()."""
        return float((counts @ self.log_decays).max())

    def log_tail(self, counts: Floats) -> float:
        """Return log of the bound on what lies beyond, in every row."""
        return self.decay(counts) - math.log(math.pi * self.frequency)


class Contour:
    """The trapezoid rule on one vertical line, for several rows of step counts."""

    def __init__(
        self,
        losses: Sequence[Loss],
        counts: Floats,
        tilts: Floats,
        cumulants: Floats,
        at: int,
        epsilons: Floats,
        log_deltas: Floats,
        most: int = MOST_FREQUENCIES,
        tolerance: float = TOLERANCE,
    ) -> None:
        """Choose spacing and number of frequencies, and evaluate the transforms.

        Shapes: counts [T, P], tilts [J], cumulants [3, T, J], epsilons, log_deltas [T].

        Args:
            losses: Of a step of each phase, [P].
            counts: Steps of each phase in each row.
            tilts: Those at which K is known, ascending.
            cumulants: K, K', K'' of each row at those tilts.
            at: Index of the tilt c.
            epsilons: Near which the rows will be asked.
            log_deltas: About what δ is there.
            most: Frequencies that may be taken.
            tolerance: Of each error, relative to δ.

        Attribute ``useless`` tells that they do not suffice: do not ask for sums then.
        """
        self.counts, self.tilts, self.cumulants = counts, tilts, cumulants[0]
        self.at, self.tilt = at, float(tilts[at])
        self.log_scale = cumulants[0, :, at]
        few = counts.sum(axis=1).min() < FEW_STEPS
        log_tolerance = math.log(max(tolerance, FEW_TOLERANCE if few else 0.0))
        self.period = self._period(epsilons, log_deltas, log_tolerance)
        self.spacing = 2 * math.pi / self.period
        room = self.log_scale - self.tilt * epsilons - log_deltas
        excess = float(room.max()) - log_tolerance
        spread = float(cumulants[2, :, at].min())
        start = math.sqrt(2 * max(excess, 1.0) / max(spread, 1e-300))
        limit = most * self.spacing
        self.cut = self._cut_off(losses, excess, min(start, limit), limit)
        cut = self.cut.frequency
        number = math.ceil(cut / self.spacing) + 1
        self.useless = self.cut.log_tail(counts) + excess > USELESS_TAIL
        if self.useless:
            return
        wanted = math.exp(-max(excess, 0.0)) / max(float(counts.sum(axis=1).max()), 1.0)
        wanted = min(max(wanted, LEAST_ERROR), LARGEST_ERROR)
        products = NODES * most // len(losses)
        found = [
            loss.line(self.tilt, self.spacing, number, wanted, products)
            for loss in losses
        ]
        self.lines = [line for line in found if line is not None]
        self.useless = len(self.lines) < len(found)
        if not self.useless:
            self._sum_up()

    def of(self, counts: Floats, cumulants: Floats) -> Contour:
        """Return the same line for other rows, which lie between its own."""
        other = copy(self)
        other.counts, other.cumulants = counts, cumulants[0]
        other._sum_up()
        return other

    def _sum_up(self) -> None:
        """Add the lines' logarithms up, with the kernel and the bound on errors."""
        counts, lines = self.counts, self.lines
        self.means = counts @ np.array([line.mean for line in lines])  # [T]
        self.log_scale = counts @ np.array([line.log_moment for line in lines])
        ratios = np.array([line.log_ratios for line in lines])  # [P, N]
        errors = np.array([line.errors for line in lines])  # [P, N]
        relative = errors * np.exp(np.minimum(-ratios.real, LARGEST_LOG))
        # (1 + e/|φ|)^n - 1 >= |(φ + e)^n - φ^n| / |φ|^n
        doubt = np.expm1(np.minimum(counts @ np.log1p(relative), LARGEST_LOG))
        self.frequencies = self.spacing * np.arange(ratios.shape[1])  # [N]
        s = self.tilt + 1j * self.frequencies
        kernel = self.spacing / math.pi / (s * (s + 1))
        kernel[0] /= 2
        logs = counts @ ratios + np.log(kernel)  # [T, N]
        self.sizes, self.phases = np.exp(logs.real), logs.imag
        doubt += EPS * (8 + np.abs(logs.imag))
        self.error = (self.sizes * doubt).sum(axis=1)  # [T]
        self.error += math.exp(self.cut.log_tail(counts))
        self.turning = EPS * (self.sizes @ self.frequencies)  # [T]: error a unit of ε
        self.bend = self.sizes @ self.frequencies**2  # [T]: |second derivative| <=
        own = counts @ np.array([line.moment_error for line in lines])
        self.own = own + EPS * np.abs(self.log_scale)  # of e^K(c), [T]

    def sum(self, epsilons: Floats, *, turns: bool = True) -> Sum:
        """Return the sum at one ε a row, and its derivative or NaN; [T]."""
        with np.errstate(invalid="ignore"):  # an ε without bounds gives NaN
            angles = np.outer(self.means - epsilons, self.frequencies)
            angles += self.phases
            total = np.einsum("tn,tn->t", self.sizes, np.cos(angles))
            if not turns:
                return Sum(epsilons, total, np.full_like(total, np.nan))
            sines = np.sin(angles, out=angles)
            sines *= self.frequencies
            return Sum(epsilons, total, np.einsum("tn,tn->t", self.sizes, sines))

    def log_delta(self, found: Sum) -> tuple[Floats, Floats]:
        """Return log S(ε), NaN where the sum is not positive, and its derivative."""
        with np.errstate(all="ignore"):
            logs = self._factor(found.epsilons) + np.log(found.total)
            return logs, found.turns / found.total - self.tilt

    def doubt(self, found: Sum, *, aliasing: bool) -> Floats:
        """Return how far S may be off, relative to it; [T]."""
        x = found.epsilons
        with np.errstate(all="ignore"):
            doubt = self._error(found, 0.0) / found.total + self._own(x)
            if aliasing:
                alias = self._log_alias(x, self.period)
                doubt += np.exp(alias - self._factor(x)) / found.total
            return np.asarray(doubt)

    def at_most(self, found: Sum, shift: Floats | float = 0.0) -> Floats:
        """Return a bound on log δ from above at ε + shift; [T].

        Taylor: the sum differs from its tangent by at most bend shift² / 2.
        """
        with np.errstate(all="ignore"):
            total = self._tangent(found, shift) + self._error(found, shift)
            return self._scaled(found, shift, total, 1)

    def at_least(self, found: Sum, shift: Floats | float = 0.0) -> Floats:
        """Return a bound on log δ from below at ε + shift, NaN for none; [T]."""
        with np.errstate(all="ignore"):
            total = self._tangent(found, shift) - self._error(found, shift)
            logs = self._scaled(found, shift, total, -1)
            alias = self._log_alias(found.epsilons + shift, self.period)
            return np.asarray(logs + np.log1p(-np.exp(alias - logs)))

    def _tangent(self, found: Sum, shift: Floats | float) -> Floats:
        return found.total + np.where(shift == 0, 0.0, shift * found.turns)

    def _error(self, found: Sum, shift: Floats | float) -> Floats:
        """Return a bound on the errors of the tangent at ε + shift; [T]."""
        turns = np.abs(self.means - found.epsilons) + 8 * np.abs(shift)
        bow = 0.5 * self.bend * np.square(shift)
        return np.asarray(self.error + self.turning * turns + bow)

    def _scaled(
        self, found: Sum, shift: Floats | float, total: Floats, side: int
    ) -> Floats:
        """Return log of the total with its factor, and the factor's error; [T]."""
        epsilons = found.epsilons + shift
        own = np.log1p(side * self._own(epsilons))
        return np.asarray(self._factor(epsilons) + np.log(total) + own)

    def _factor(self, epsilons: Floats) -> Floats:
        """Return log of e^(K(c) - cε)."""
        return np.asarray(self.log_scale - self.tilt * epsilons)

    def _own(self, epsilons: Floats) -> Floats:
        """Return the relative error of the same."""
        return np.asarray(self.own + EPS * np.abs(self.tilt * epsilons))

    def _log_alias(self, epsilons: Floats, period: float) -> Floats:
        """Return log of the bound on all terms with m != 0; [T]."""
        gaps = np.abs(self.tilts - self.tilt) * period
        logs = self._log_chernoff(epsilons) - _log_expm1(gaps)  # [T, J]
        left = np.min(logs[:, : self.at], axis=1, initial=np.inf)
        left = np.minimum(
            left, -_log_expm1(np.array([self.tilt * period]))
        )  # tilt 0: δ <= 1
        right = np.min(logs[:, self.at + 1 :], axis=1, initial=np.inf)
        return np.asarray(np.logaddexp(left, right))

    def _log_chernoff(self, epsilons: Floats, rows: Rows = EVERY) -> Floats:
        """Return log of κ(c') e^(K(c') - c'ε) for every tilt; [T, J]."""
        return log_chernoff(self.tilts, self.cumulants[rows], epsilons)

    def _period(self, epsilons: Floats, log_deltas: Floats, log_tol: float) -> float:
        """Return about the least p whose aliasing is within the tolerance."""
        some = np.linspace(0, len(epsilons) - 1, FEW_ROWS).astype(np.intp)
        if len(epsilons) > FEW_ROWS:
            epsilons, log_deltas = epsilons[some], log_deltas[some]
        else:
            some = np.arange(len(epsilons))
        gaps = np.abs(self.tilts - self.tilt)
        excess = self._log_chernoff(epsilons, some) - log_deltas[:, None] - log_tol
        gaps[self.at] = np.inf
        needed = np.logaddexp(0.0, excess) / gaps  # [T, J]
        free = np.logaddexp(0.0, -log_deltas - log_tol) / self.tilt  # tilt 0
        needed[:, self.at] = np.inf
        left = np.minimum(np.min(needed[:, : self.at], axis=1, initial=np.inf), free)
        right = np.min(needed[:, self.at + 1 :], axis=1, initial=np.inf)
        return max(float(np.maximum(left, right).max()), 1 / self.tilt)

    def _cut_off(
        self, losses: Sequence[Loss], room: float, frequency: float, most: float
    ) -> CutOff:
        """Return where the sum may stop, with what lies beyond within the room."""
        bounds = [loss.log_decay(self.tilt) for loss in losses]
        while True:
            cut = CutOff(frequency, np.array([bound(frequency) for bound in bounds]))
            excess = cut.log_tail(self.counts) + room
            if excess <= 0 or frequency >= most:
                return cut
            growth, decay = 2.0, cut.decay(self.counts)
            if decay < -1:
                growth = min(max(1.02 * math.sqrt(1 - excess / decay), 1.05), 2.0)
            frequency = min(frequency * growth, most)


def log_chernoff(tilts: Floats, cumulants: Floats, epsilons: Floats) -> Floats:
    """Return log of Chernoff's bound on δ at one ε a row, κ(c) e^(K(c) - cε).

    Shapes: tilts [J], cumulants [T, J], epsilons [T] -> [T, J].
    """
    return cumulants + log_peaks(tilts) - np.outer(epsilons, tilts)


def log_peaks(tilts: Floats) -> Floats:
    """Return log κ(c), κ(c) = c^c / (1 + c)^(1 + c); [J] -> [J]."""
    return tilts * np.log(tilts) - (1 + tilts) * np.log1p(tilts)


def _log_expm1(values: Floats) -> Floats:
    """Return log(e^x - 1) for x >= 0, -inf at 0."""
    with np.errstate(divide="ignore"):
        return np.asarray(values + np.log(-np.expm1(-values)))

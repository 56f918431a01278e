"""δ(ε) of a composition by a contour integral, with bounds on its errors.

Let K(s) be the sum of the steps' cumulant generating functions.  For every tilt c > 0

    δ(ε) = E_P[(1 - e^(ε - L))_+] = (1 / 2πi) ∫ e^(K(s) - sε) / (s (s + 1)) ds

along the contour Re s = c.  The trapezoid rule with spacing h gives a sum S(ε), and by
Poisson's summation formula

    S(ε) = sum over all integers m of δ(ε + mp) e^(cmp),    p = 2π/h.

Every term is positive, so the infinite sum is never below δ(ε).  Chernoff's inequality
at other tilts bounds the terms with m != 0.  Four errors remain, relative to δ:

| error | bounded by | bounds |
|---|---|---|
| aliasing: the terms m != 0 | κ(c') e^(K(c') - c'ε) / (e^(∣c' - c∣p) - 1) | lower |
| cut-off: frequencies above U | e^(K(c) - cε) ρ(U) / (πU) | both |
| the steps' transforms | (1 + e/∣φ∣)^n - 1 times the term, e of ``Transform`` | both |
| round-off | assumed: in e, and a few last places of each term | both |

Here κ(x) = x^x / (1 + x)^(1 + x), c' is any other tilt, above c for the terms with
m > 0 and below it for the others, and ρ comes from ``PrivacyLoss.log_decay_bound``.

Source: the integral: Alghamdi et al. (2023), "The Saddle-Point Method in Differential
Privacy", ICML.  Differs: they expand the integrand at its saddle point; here it is
summed.  The derivation of the bounds: docs/explanation/math.md, section 3.

Notation: P phases, T rows (numbers of steps), J tilts, N frequencies.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np

from dpsgd_explorer.accounting.core.accountant import Floats
from dpsgd_explorer.accounting.core.log_space import log_expm1
from dpsgd_explorer.accounting.core.tolerances import (
    MACHINE_EPSILON,
    MAX_EXPONENT,
    TOLERANCES,
)
from dpsgd_explorer.accounting.exact.privacy_loss import ContourGrid, PrivacyLoss

#: Number of steps below which the integrand falls slowly, and ``few_steps_error`` is
#: allowed.
SLOW_DECAY_STEPS = 50
#: Average number of nodes per frequency, if a contour has MAX_FREQUENCIES.
NODES_PER_FREQUENCY = 4096
#: Largest number of frequencies of one contour.
MAX_FREQUENCIES = 1 << 13
#: Log of the cut-off error over its tolerance, above which the sums are useless.
MAX_LOG_EXCESS = 20.0
#: Smallest K'', so that it has an inverse.
MIN_VARIANCE = 1e-300
#: Number of rows that decide the spacing for all rows.
MAX_PERIOD_ROWS = 9
ALL = slice(None)


@dataclass(frozen=True)
class TrapezoidSum:
    """S(ε) / e^(K(c) - cε) at one ε per row; [T] each.

    Attributes:
        epsilons: ε.
        total: The sum.  It may be negative where only round-off is left.
        derivative: Derivative of the sum by ε, NaN if it was not computed.
    """

    epsilons: Floats
    total: Floats
    derivative: Floats


@dataclass(frozen=True)
class CutOff:
    """The frequency above which terms are left out.

    Attributes:
        frequency: U.
        log_decays: Bounds on the log of each step's transform above U, [P].
    """

    frequency: float
    log_decays: Floats

    def log_decay(self, counts: Floats) -> float:
        """Returns the largest log ρ(U) of all rows; [T, P] -> ()."""
        return float((counts @ self.log_decays).max())

    def log_error(self, counts: Floats) -> float:
        """Returns log of the bound on the missing terms, ρ(U) / (πU), of all rows."""
        return self.log_decay(counts) - math.log(math.pi * self.frequency)


class Contour:
    """The trapezoid rule on one contour, for several rows of step counts.

    Attributes:
        tilt: c, the real part of s.
        period: p.
        is_usable: If True, sums can be computed.  If False, there are too few
            frequencies, or a step has no transform with that number of them.
        curvature_bound: Bound on the second derivative of the sum, [T].
    """

    def __init__(
        self,
        losses: Sequence[PrivacyLoss],
        counts: Floats,
        tilts: Floats,
        cumulants: Floats,
        index: int,
        epsilons: Floats,
        log_deltas: Floats,
        max_frequencies: int = MAX_FREQUENCIES,
        tolerance: float = TOLERANCES.sum_error,
    ) -> None:
        """Chooses spacing and number of frequencies, and evaluates the transforms.

        Shapes: counts [T, P], tilts [J], cumulants [3, T, J], epsilons, log_deltas [T].

        Args:
            losses: Privacy loss of one step of each phase, [P].
            counts: Steps of each phase in each row.
            tilts: Tilts with known cumulants, ascending.
            cumulants: K, K', K'' of each row at the tilts.
            index: Index of the contour's tilt c.
            epsilons: About the ε at which the rows' sums will be computed.
            log_deltas: About log δ at these ε.
            max_frequencies: Largest number of frequencies.
            tolerance: Error of aliasing, and of the cut-off, relative to δ.
        """
        self.counts, self.tilts, self.cumulants = counts, tilts, cumulants[0]
        self.index, self.tilt = index, float(tilts[index])
        self.log_scale = cumulants[0, :, index]
        is_short = counts.sum(axis=1).min() < SLOW_DECAY_STEPS
        least_error = TOLERANCES.few_steps_error if is_short else 0.0
        log_tolerance = math.log(max(tolerance, least_error))
        self.period = self._choose_period(epsilons, log_deltas, log_tolerance)
        self.spacing = 2 * math.pi / self.period
        # The terms of S are e^cancellation times as large as δ.
        cancellation = self.log_scale - self.tilt * epsilons - log_deltas
        error_budget = float(cancellation.max()) - log_tolerance
        variance = float(cumulants[2, :, index].min())
        start = math.sqrt(2 * max(error_budget, 1.0) / max(variance, MIN_VARIANCE))
        limit = max_frequencies * self.spacing
        self.cut = self._cut_off(losses, error_budget, min(start, limit), limit)
        number = math.ceil(self.cut.frequency / self.spacing) + 1
        excess = self.cut.log_error(counts) + error_budget
        self.is_usable = not excess > MAX_LOG_EXCESS
        if not self.is_usable:
            return
        steps = max(float(counts.sum(axis=1).max()), 1.0)
        step_error = math.exp(-max(error_budget, 0.0)) / steps
        step_error = max(step_error, TOLERANCES.min_transform_error)
        step_error = min(step_error, TOLERANCES.max_transform_error)
        max_products = NODES_PER_FREQUENCY * max_frequencies // len(losses)
        grid = ContourGrid(self.tilt, self.spacing, number, step_error, max_products)
        transforms = [loss.transform(grid) for loss in losses]
        self.transforms = [step for step in transforms if step is not None]
        self.is_usable = len(self.transforms) == len(transforms)
        if self.is_usable:
            self._compose()

    def for_rows(self, counts: Floats, cumulants: Floats) -> Contour:
        """Returns the contour for other rows, with steps within the range of its rows.

        Shapes: counts [T, P], cumulants [3, T, J].
        """
        other = copy(self)
        other.counts, other.cumulants = counts, cumulants[0]
        other._compose()
        return other

    def _compose(self) -> None:
        """Sets each row's terms, and the bounds on their errors."""
        counts, transforms = self.counts, self.transforms
        self.means = counts @ np.array([step.mean for step in transforms])  # [T]
        self.log_scale = counts @ np.array([step.log_moment for step in transforms])
        ratios = np.array([step.log_ratios for step in transforms])  # [P, N]
        errors = np.array([step.errors for step in transforms])  # [P, N]
        relative = errors * np.exp(np.minimum(-ratios.real, MAX_EXPONENT))
        # |(φ + e)^n - φ^n| / |φ|^n <= (1 + e/|φ|)^n - 1
        logs = np.minimum(counts @ np.log1p(relative), MAX_EXPONENT)
        error_bounds = np.expm1(logs)  # [T, N], relative to each term
        self.frequencies = self.spacing * np.arange(ratios.shape[1])  # [N]
        s = self.tilt + 1j * self.frequencies
        kernel = self.spacing / math.pi / (s * (s + 1))
        kernel[0] /= 2  # the sum over k and -k counts k = 0 once
        terms = counts @ ratios + np.log(kernel)  # [T, N]
        self.sizes, self.phases = np.exp(terms.real), terms.imag
        error_bounds += MACHINE_EPSILON * (TOLERANCES.last_places + np.abs(terms.imag))
        self.error = (self.sizes * error_bounds).sum(axis=1)  # [T], at ε = mean
        self.error += math.exp(self.cut.log_error(counts))
        # Round-off of the angles u (mean - ε), per unit of |mean - ε|; [T].
        self.angle_error = MACHINE_EPSILON * (self.sizes @ self.frequencies)
        self.curvature_bound = self.sizes @ self.frequencies**2  # [T]
        scale_error = counts @ np.array([step.moment_error for step in transforms])
        self.scale_error = scale_error + MACHINE_EPSILON * np.abs(self.log_scale)

    def sum(self, epsilons: Floats, *, derivative: bool = True) -> TrapezoidSum:
        """Returns the sum at one ε per row, with its derivative or NaN; [T]."""
        with np.errstate(invalid="ignore"):  # an infinite ε gives NaN
            angles = np.outer(self.means - epsilons, self.frequencies)
            angles += self.phases
            total = np.einsum("tn,tn->t", self.sizes, np.cos(angles))
            if not derivative:
                return TrapezoidSum(epsilons, total, np.full_like(total, np.nan))
            sines = np.sin(angles, out=angles)
            sines *= self.frequencies
            slope = np.einsum("tn,tn->t", self.sizes, sines)
            return TrapezoidSum(epsilons, total, slope)

    def log_delta(self, point: TrapezoidSum) -> tuple[Floats, Floats]:
        """Returns log S(ε), NaN where S is not positive, and its derivative; [T]."""
        with np.errstate(all="ignore"):
            logs = self._log_factor(point.epsilons) + np.log(point.total)
            return logs, point.derivative / point.total - self.tilt

    def error_bound(self, point: TrapezoidSum, *, aliasing: bool) -> Floats:
        """Returns the bound on the error of S relative to S; [T]."""
        epsilons = point.epsilons
        with np.errstate(all="ignore"):
            bound = self._sum_error(point, 0.0) / point.total
            bound += self._factor_error(epsilons)
            if aliasing:
                alias = self._log_alias(epsilons, self.period)
                bound += np.exp(alias - self._log_factor(epsilons)) / point.total
            return np.asarray(bound)

    def upper_bound(self, point: TrapezoidSum, shift: Floats | float = 0.0) -> Floats:
        """Returns an upper bound on log δ(ε + shift) from the sum at ε; [T].

        Taylor: the sum differs from its tangent by the curvature term at most.
        """
        with np.errstate(all="ignore"):
            total = self._tangent(point, shift) + self._sum_error(point, shift)
            return self._log_scaled(point, shift, total, 1)

    def lower_bound(self, point: TrapezoidSum, shift: Floats | float = 0.0) -> Floats:
        """Returns a lower bound on log δ(ε + shift), NaN for none; [T]."""
        with np.errstate(all="ignore"):
            total = self._tangent(point, shift) - self._sum_error(point, shift)
            logs = self._log_scaled(point, shift, total, -1)
            alias = self._log_alias(point.epsilons + shift, self.period)
            return np.asarray(logs + np.log1p(-np.exp(alias - logs)))

    def _tangent(self, point: TrapezoidSum, shift: Floats | float) -> Floats:
        return point.total + np.where(shift == 0, 0.0, shift * point.derivative)

    def _sum_error(self, point: TrapezoidSum, shift: Floats | float) -> Floats:
        """Returns a bound on the errors of the tangent at ε + shift; [T]."""
        distance = np.abs(
            self.means - point.epsilons
        ) + TOLERANCES.last_places * np.abs(shift)
        curvature_term = 0.5 * self.curvature_bound * np.square(shift)
        return np.asarray(self.error + self.angle_error * distance + curvature_term)

    def _log_scaled(
        self, point: TrapezoidSum, shift: Floats | float, total: Floats, sign: int
    ) -> Floats:
        """Returns log of the total times its factor, and the factor's error; [T]."""
        epsilons = point.epsilons + shift
        error = np.log1p(sign * self._factor_error(epsilons))
        return np.asarray(self._log_factor(epsilons) + np.log(total) + error)

    def _log_factor(self, epsilons: Floats) -> Floats:
        """Returns log of e^(K(c) - cε), the scale of the sums; [T]."""
        return np.asarray(self.log_scale - self.tilt * epsilons)

    def _factor_error(self, epsilons: Floats) -> Floats:
        """Returns a bound on the relative error of e^(K(c) - cε); [T]."""
        round_off = MACHINE_EPSILON * np.abs(self.tilt * epsilons)
        return np.asarray(self.scale_error + round_off)

    def _log_alias(self, epsilons: Floats, period: float) -> Floats:
        """Returns log of the bound on all terms with m != 0; [T].

        The series of positive m and of negative m are geometric, and the best tilt
        bounds each of them.  Below c the tilt 0, with the bound δ <= 1, is tried too.
        """
        gaps = np.abs(self.tilts - self.tilt) * period
        logs = log_chernoff(self.tilts, self.cumulants, epsilons) - log_expm1(gaps)
        at_zero = -log_expm1(np.array([self.tilt * period]))
        return np.asarray(np.logaddexp(*self._least_per_side(logs, at_zero)))

    def _least_per_side(self, values: Floats, at_zero: Floats) -> tuple[Floats, Floats]:
        """Returns the least values of tilts below c, and above c; [T, J] -> [T], [T].

        Args:
            values: Values at the tilts.
            at_zero: Values at the tilt 0, [T] or [1].
        """
        below = np.min(values[:, : self.index], axis=1, initial=np.inf)
        above = np.min(values[:, self.index + 1 :], axis=1, initial=np.inf)
        return np.minimum(below, at_zero), above

    def _choose_period(
        self, epsilons: Floats, log_deltas: Floats, log_tolerance: float
    ) -> float:
        """Returns about the least p with an aliasing error within the tolerance."""
        rows = np.arange(len(epsilons))
        if len(epsilons) > MAX_PERIOD_ROWS:
            rows = np.linspace(0, len(epsilons) - 1, MAX_PERIOD_ROWS).astype(np.intp)
            epsilons, log_deltas = epsilons[rows], log_deltas[rows]
        gaps = np.abs(self.tilts - self.tilt)
        gaps[self.index] = np.inf
        logs = log_chernoff(self.tilts, self.cumulants[rows], epsilons)
        excess = logs - log_deltas[:, None] - log_tolerance
        needed = np.logaddexp(0.0, excess) / gaps  # [T, J]
        at_zero = np.logaddexp(0.0, -log_deltas - log_tolerance) / self.tilt
        sides = self._least_per_side(needed, at_zero)
        return max(float(np.maximum(*sides).max()), 1 / self.tilt)

    def _cut_off(
        self,
        losses: Sequence[PrivacyLoss],
        error_budget: float,
        frequency: float,
        limit: float,
    ) -> CutOff:
        """Returns about the least U whose cut-off error is within the error budget.

        Args:
            losses: Privacy loss of one step of each phase.
            error_budget: -log of the allowed error.
            frequency: First U; it grows until the error is small enough.
            limit: Largest U.
        """
        bounds = [loss.log_decay_bound(self.tilt) for loss in losses]
        while True:
            cut = CutOff(frequency, np.array([bound(frequency) for bound in bounds]))
            excess = cut.log_error(self.counts) + error_budget
            if excess <= 0 or frequency >= limit:
                return cut
            growth, decay = 2.0, cut.log_decay(self.counts)
            if decay < -1:  # log ρ(U) falls about as U²
                growth = min(max(1.02 * math.sqrt(1 - excess / decay), 1.05), 2.0)
            frequency = min(frequency * growth, limit)


def log_chernoff(tilts: Floats, cumulants: Floats, epsilons: Floats) -> Floats:
    """Returns log of Chernoff's bound on δ at one ε per row, κ(c) e^(K(c) - cε).

    Shapes: tilts [J], cumulants [T, J], epsilons [T] -> [T, J].
    """
    return cumulants + log_kappa(tilts) - np.outer(epsilons, tilts)


def log_kappa(tilts: Floats) -> Floats:
    """Returns log κ(c), κ(c) = c^c / (1 + c)^(1 + c); [J] -> [J].

    κ(c) is the maximum of (1 - e^-y) e^-cy over y > 0, taken at e^-y = c / (1 + c).
    So (1 - e^-y)_+ <= κ(c) e^cy for all y.  At c = 1 it is 1/4:

    >>> round(float(np.exp(log_kappa(np.array([1.0])))[0]), 12)
    0.25
    """
    return tilts * np.log(tilts) - (1 + tilts) * np.log1p(tilts)

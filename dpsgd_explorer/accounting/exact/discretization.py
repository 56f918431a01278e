"""Connect-the-dots discretisation: privacy curves as probability masses, and back.

The privacy curve δ(x) of a step, x = e^ε, is convex and falls.  Between the points x_k
of a grid, the curve is

- below its chords, which form a **pessimistic** curve;
- above the extensions of the neighbouring chords.  They bound the error of each chord,
  and the chords lowered by this bound form an **optimistic** curve.

A convex, falling, piecewise linear curve that ends at 0 belongs to a discrete privacy
loss with the values log x_k.  The change of slope at x_k is the probability of log x_k
under Q, and x_k times this change is its probability under P.  A larger curve of each
step gives a larger curve of the composition (``discretized_pld``), whose tail masses
give δ:

    δ(ε) = P(L > ε) - e^ε Q(L > ε).

Source: the pessimistic curve: Doroshenko et al. (2022), "Connect the Dots",
arXiv:2207.04380.  Differs: the optimistic curve.

Notation: K points of a step's grid, with evenly spaced losses; N points of a
composition's grid.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpsgd_explorer.accounting.core.accountant import Floats
from dpsgd_explorer.accounting.core.tolerances import TOLERANCES
from dpsgd_explorer.accounting.exact.privacy_loss import PrivacyCurve

#: Smallest change of slope, so that it has an inverse.
MIN_SLOPE_CHANGE = 1e-300
#: Largest error of a chord, as a share of the curve, for which both ends are lowered.
MAX_ERROR_SHARE = 0.3
#: Largest size of a logarithm: e^340 and e^-340 have floats as squares.
MAX_LOG = 340.0


def pessimistic_masses(loss: PrivacyCurve, grid: Floats) -> tuple[Floats, float]:
    """Returns masses of a discrete loss whose privacy curve is nowhere smaller.

    One Gaussian step with μ = 1 has δ(0) = 0.3829249; on a grid of spacing 0.1:

    >>> from dpsgd_explorer.accounting.exact.privacy_loss import GaussianLoss
    >>> grid = np.linspace(-4.0, 5.0, 91)
    >>> masses, infinite = pessimistic_masses(GaussianLoss(mu=1.0), grid)
    >>> delta = masses @ np.maximum(1 - np.exp(-grid), 0.0) + infinite
    >>> round(float(masses.sum() + infinite), 12), round(float(delta), 7)
    (1.0, 0.3829249)

    Shapes: grid [K] -> [K], ().

    Args:
        loss: Privacy loss of one step.
        grid: Losses at equal distances, ascending.

    Returns:
        Probabilities under P of the losses of the grid, and of an infinite loss.
    """
    curve = loss.deltas(grid)
    return _masses(grid, _slopes(grid, curve)), float(curve[-1])


def optimistic_masses(loss: PrivacyCurve, grid: Floats) -> Floats:
    """Returns masses of a discrete loss whose privacy curve is nowhere larger.

    Both ends of a chord are lowered by a bound on the chord's error.  If this bound is
    too large a share of the curve, only the left end is lowered, to the extension of
    the next chord.  The loss is never infinite.

    Shapes: grid [K] -> [K].
    """
    from scipy.optimize import isotonic_regression  # its import takes 0.3 s

    curve = loss.deltas(grid)
    errors = _chord_errors(loss, grid, curve)
    widths = np.diff(np.exp(grid), prepend=0.0)
    extended = curve[1:] - _slopes(grid, curve)[2:] * widths[1:]
    steep = errors > MAX_ERROR_SHARE * (curve[1:] - curve[-1])
    left = np.append(np.where(steep, curve[:-1] - extended, errors), 0.0)
    right = np.insert(np.where(steep, 0.0, errors), 0, 0.0)
    lowered = (
        curve - np.maximum(left, right) - TOLERANCES.few_operations * curve - curve[-1]
    )
    lowered[np.append(lowered[1:] <= 0, True)] = 0.0  # the curve reaches 0 before it
    lowered = np.maximum(lowered, 0.0)
    slopes = _slopes(grid, lowered, 1.0 - TOLERANCES.few_operations - float(curve[-1]))
    # The largest convex curve below the points has the isotonic regression of slopes.
    slopes[:-1] = isotonic_regression(slopes[:-1], weights=widths).x
    return _masses(grid, slopes)


def _masses(grid: Floats, slopes: Floats) -> Floats:
    """Returns masses under P, negative only by round-off; [K], [K + 1] -> [K]."""
    return np.asarray(np.exp(grid) * np.diff(slopes))


def _slopes(grid: Floats, curve: Floats, origin: float = 1.0) -> Floats:
    """Returns the slopes before, between and after the points; [K] -> [K + 1].

    Args:
        grid: Losses log x_k.
        curve: Values at the points.
        origin: Value at x = 0, a loss of -infinity.
    """
    rises = np.diff(curve, prepend=origin)
    return np.append(rises / np.diff(np.exp(grid), prepend=0.0), 0.0)


def _chord_errors(loss: PrivacyCurve, grid: Floats, curve: Floats) -> Floats:
    """Returns bounds on chord minus curve between neighbours; [K] -> [K - 1].

    In either half of its interval, the error of a chord has at most two parts: its
    distance from the curve in the middle, and the error of the half's chord.  The
    extensions of the chords next to the half bound the second part.
    """
    fine_grid = np.empty(2 * len(grid) - 1)
    fine_grid[::2], fine_grid[1::2] = grid, 0.5 * (grid[:-1] + grid[1:])
    fine = np.empty_like(fine_grid)
    fine[::2], fine[1::2] = curve, loss.deltas(fine_grid[1::2])
    changes = np.maximum(np.diff(_slopes(fine_grid, fine)), MIN_SLOPE_CHANGE)
    widths = np.diff(np.exp(fine_grid))
    halves = widths / (1 / changes[:-1] + 1 / changes[1:])
    share = widths[::2] / (widths[::2] + widths[1::2])
    middle = np.maximum(curve[:-1] + share * np.diff(curve) - fine[1::2], 0.0)
    return np.asarray(middle + np.maximum(halves[::2], halves[1::2]))


@dataclass(frozen=True)
class CompositionTail:
    """Tail masses of a composition's discretised PLD, which bound δ on one side.

    The losses are L_k = origin + offsets_k.  For L_(k-1) < ε <= L_k

        δ(ε) / e^log_scale = p_tails_k - e^(ε - origin) q_tails_k,

    up to error_bounds_k.  The scale keeps the numbers within the range of floats.

    Attributes:
        sign: 1 for upper bounds, -1 for lower bounds.
        origin: Loss of offset 0.
        offsets: Ascending from 0, [N].
        p_tails: P(L >= L_k), scaled, [N].
        q_tails: e^origin Q(L >= L_k), scaled, [N].
        error_bounds: Bounds on folding and round-off, scaled; [N], falling.
        log_scale: Log of the factor of the scaled numbers.
        infinite: Probability of an infinite loss, which is added to δ.
    """

    sign: int
    origin: float
    offsets: Floats
    p_tails: Floats
    q_tails: Floats
    error_bounds: Floats
    log_scale: float
    infinite: float

    def epsilon(self, delta: float) -> float:
        """Returns the bound on ε >= 0 at delta; infinity, or 0, without a bound."""
        nothing = math.inf if self.sign > 0 else 0.0
        finite = delta - self.infinite
        if finite <= 0 or abs(math.log(finite) - self.log_scale) > MAX_LOG:
            return nothing
        target = math.exp(math.log(finite) - self.log_scale)
        errors = self.sign * self.error_bounds
        deltas = self.p_tails - self.q_tails * np.exp(self.offsets) + errors
        above = np.flatnonzero(deltas > target)
        if not len(above):
            return max(self.origin, 0.0) if self.sign > 0 else 0.0
        last = int(above[-1])
        if last + 1 == len(self.p_tails):
            return nothing
        return max(self.origin + self._offset(last, target - errors[last]), 0.0)

    def _offset(self, last: int, target: float) -> float:
        """Returns the offset after a point at which δ, linear in e^ε, has a value.

        Args:
            last: Index of the point.
            target: Value of δ, scaled.
        """
        low, high = self.offsets[last : last + 2]
        gain, q_tail = self.p_tails[last + 1] - target, self.q_tails[last + 1]
        if q_tail <= 0:  # nothing but round-off is left
            return float(high if self.sign > 0 else low)
        offset = math.log(gain) - math.log(q_tail) if gain > 0 else -math.inf
        return float(np.clip(offset, low, high))

    def log_delta(self, epsilon: float) -> float:
        """Returns the bound on log δ at epsilon; outside the grid 0, or -infinity."""
        offset = epsilon - self.origin
        index = int(np.searchsorted(self.offsets, offset))
        if offset < 0 or index == len(self.offsets):
            return 0.0 if self.sign > 0 else -math.inf
        delta = self.p_tails[index] - self.q_tails[index] * math.exp(offset)
        delta += self.sign * self.error_bounds[max(index - 1, 0)]
        if self.sign > 0:
            delta = max(delta, math.exp(-MAX_LOG))  # smaller weights underflow
        log_delta = math.log(delta) + self.log_scale if delta > 0 else -math.inf
        if not self.infinite:
            return min(log_delta, 0.0)
        return min(float(np.logaddexp(log_delta, math.log(self.infinite))), 0.0)

"""Bounds on ε, δ and the trade-off of DP-SGD together with other mechanisms.

All steps of DP-SGD together have bounds on δ at each ε (``exact``); every other
mechanism has a curve.  On one grid of losses, each curve becomes

- a discrete loss whose curve is nowhere smaller, and
- a discrete loss whose curve is nowhere larger.

Sums of the first kind bound ε from above, sums of the second kind from below.  Their
distributions are convolutions with positive terms, so that no digits of a small δ are
lost.  The error of a chord is proportional to the square of the spacing.  If losses are
too large for a grid, ε is the sum of the ε of the parts, each with a share of δ.

**Smaller curve.**  Let L_k <= f(x_k) <= U_k for a convex curve f with f(0) = 1 and
slopes of at least -1.  Between x_k and x_(k+1), f is above the line through (x_k, L_k)
with the slope (L_k - U_(k-1)) / (x_k - x_(k-1)), and above the corresponding line from
the right.  So the chord of L exceeds f by at most the chord's distance from the corner
of both lines.  The points are lowered by the errors of both neighbouring chords.

Source: the larger curve: Doroshenko et al. (2022), arXiv:2207.04380; a larger curve of
each part gives a larger curve of the composition: Zhu, Dong and Wang (2022),
arXiv:2106.08567v2, Theorem 10.

Notation: K losses of a grid from 0 on, E values of ε.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

import numpy as np

from dpsgd_explorer.accounting.core import validation
from dpsgd_explorer.accounting.core.intervals import (
    Floats,
    Interval,
    interval,
    intervals,
)
from dpsgd_explorer.accounting.core.loss_distribution import (
    LossDistribution,
    repeated,
)
from dpsgd_explorer.accounting.core.neighboring_relation import (
    NeighboringRelation,
)
from dpsgd_explorer.accounting.core.phase import Phase, has_slots
from dpsgd_explorer.accounting.core.trade_off import (
    DELTAS,
    EPSILON_SHARES,
    enclosed_rates,
)
from dpsgd_explorer.accounting.exact.step_losses import DIRECTIONS
from dpsgd_explorer.accounting.mechanisms.noise import Mechanism
from dpsgd_explorer.accounting.mechanisms.parts import (
    Curve,
    part_of,
    repeated_end,
    steps_part,
)
from dpsgd_explorer.accounting.privacy_loss_distribution import PrivacyLossDistribution

#: Losses of the grid from 0 to the sum of the largest losses.
GRID_POINTS = 2000
#: The same with random allocation, whose curve takes long.
ALLOCATION_GRID_POINTS = 400
#: Largest number of losses from 0 on, if they are placed on a mechanism's own losses.
MAX_POINTS = 12_000
#: Largest sum of the largest losses.
MAX_TOTAL = 250.0
#: Share of δ for each end of a grid.
TAIL_SHARE = 1e-6
#: δ for which grids are chosen when the largest δ of a curve is wanted.
CURVE_DELTA = 1e-9
#: Round-off of sums of a smaller curve, relative.
ROUND_OFF = 1e-8


class Composition:
    """Steps of DP-SGD and other mechanisms on the same records.

    >>> from dpsgd_explorer.accounting import LaplaceMechanism
    >>> relation = NeighboringRelation("add_or_remove_one")
    >>> queries = [(LaplaceMechanism(2.0), 1)]
    >>> both = Composition([Phase(0.01, 1.1, 1000)], queries, relation)
    >>> spent = both.epsilon_interval(1e-5)
    >>> spent.status, round(spent.lower, 3), round(spent.upper, 3)
    ('exact', 1.946, 1.946)

    Args:
        phases: Steps of DP-SGD.
        mechanisms: Other mechanisms, and how often each of them ran.
        relation: The difference between neighbouring data sets.

    Raises:
        AccountingError: a mechanism has no bound for the relation.
    """

    def __init__(
        self,
        phases: Sequence[Phase],
        mechanisms: Sequence[tuple[Mechanism | PrivacyLossDistribution, int]],
        relation: NeighboringRelation,
    ) -> None:
        self._directions = len(DIRECTIONS[relation])
        self._parts = [
            part_of(mechanism, count, relation) for mechanism, count in mechanisms
        ]
        if any(phase.steps for phase in phases):
            self._parts.append(steps_part(phases, relation))
        has_allocation = has_slots(phases)
        self._points = ALLOCATION_GRID_POINTS if has_allocation else GRID_POINTS

    def epsilon_interval(self, delta: float) -> Interval:
        """Returns the interval of ε at delta in (0, 1)."""
        pair = self._losses(delta)
        if pair is None:
            return self._added_up(delta)
        smaller, larger = pair
        upper = max(loss.epsilon(delta) for loss in larger)
        if math.isinf(upper):
            return self._added_up(delta)
        least = max(loss.epsilon(delta * (1 + ROUND_OFF)) for loss in smaller)
        return interval(min(least * (1 - ROUND_OFF), upper), upper)

    def _added_up(self, delta: float) -> Interval:
        """Returns the sum of the parts' ε, each with an equal share of δ."""
        share = delta / len(self._parts)
        upper = math.fsum(part.epsilon(share) for part in self._parts)
        lower = max(part.lower(delta) for part in self._parts)
        return interval(min(lower, upper), upper)

    def delta_intervals(self, epsilons: Floats) -> list[Interval]:
        """Returns the interval of δ at each ε >= 0; [E] -> E intervals."""
        curves = self._delta_curves(epsilons)
        lower, upper = (np.max(rows, axis=0) for rows in zip(*curves, strict=True))
        return intervals(lower, upper)

    def trade_off(self, false_positive_rates: Floats) -> list[Interval]:
        """Returns the interval of the largest true positive rate at each rate; [F]."""
        top = self.epsilon_interval(float(DELTAS[0])).value
        losses = min(top, MAX_TOTAL) * EPSILON_SHARES
        curves = self._delta_curves(losses)
        low, high = enclosed_rates(false_positive_rates, losses, curves[0], curves[-1])
        high = np.maximum(high, false_positive_rates)  # which a random guess attains
        pairs = zip(low.tolist(), high.tolist(), strict=True)
        return [Interval(high, low, high, "bound") for low, high in pairs]

    def distribution(self, relation: NeighboringRelation) -> PrivacyLossDistribution:
        """Returns the losses whose δ is nowhere below the true one."""
        pair = self._losses(CURVE_DELTA)
        if pair is None:
            rule = f"at most {MAX_TOTAL:g} in total privacy loss"
            validation.refuse("mechanisms", rule, "more")
        return PrivacyLossDistribution(tuple(pair[1]), relation)

    def _delta_curves(self, epsilons: Floats) -> list[Curve]:
        pair = self._losses(CURVE_DELTA)
        if pair is None:
            zeros = np.zeros_like(epsilons)
            return [(zeros, zeros + 1)] * self._directions
        return [
            (
                np.maximum(low.deltas(epsilons) * (1 - ROUND_OFF), 0),
                high.deltas(epsilons),
            )
            for low, high in zip(*pair, strict=True)
        ]

    def _losses(
        self, delta: float
    ) -> tuple[list[LossDistribution], list[LossDistribution]] | None:
        """Returns smaller and larger losses of each direction, None if out of range."""
        tail = TAIL_SHARE * delta / len(self._parts)
        tops = [part.top(tail / part.count) for part in self._parts]
        ends = [
            repeated_end(part, top, tail)
            for part, top in zip(self._parts, tops, strict=True)
        ]
        total = math.fsum(ends)
        if not math.isfinite(total) or total > MAX_TOTAL:
            return None
        width = self._width(total)
        smaller: list[list[LossDistribution]] = []
        larger: list[list[LossDistribution]] = []
        for part, top in zip(self._parts, tops, strict=True):
            losses: Floats = np.asarray(width * np.arange(math.ceil(top / width) + 1))
            curves = part.curves(losses)
            pairs = list(zip(curves, reversed(curves), strict=True))
            reached = pairs
            if part.attained is not None:
                forward, backward = part.attained(losses)
                reached = [(forward, backward)] * len(pairs)
            smaller.append(
                [
                    repeated_smaller(
                        smaller_loss(width, *x), part.count, tail / (2 * part.count)
                    )
                    for x in reached
                ]
            )
            larger.append(
                [
                    repeated(
                        LossDistribution.two_tailed(width, curve[1], other[1]),
                        part.count,
                        tail / (2 * part.count),
                    )
                    for curve, other in pairs
                ]
            )
        return _composed(smaller), _composed(larger)

    def _width(self, total: float) -> float:
        """Returns the spacing of the grid.

        Where it can, the grid contains the largest loss of a mechanism, because the
        mechanism's curve has a corner there.
        """
        width = max(total, 1e-9) / self._points
        pure = min(
            (part.pure for part in self._parts if part.pure > 0), default=math.inf
        )
        if math.isfinite(pure) and pure * MAX_POINTS >= total:
            return pure / math.ceil(pure / width)
        return width


def _composed(rows: list[list[LossDistribution]]) -> list[LossDistribution]:
    """Returns the sum over the parts of each direction."""
    return [reduce(LossDistribution.compose, x) for x in zip(*rows, strict=True)]


def repeated_smaller(
    part: LossDistribution, count: int, tail: float
) -> LossDistribution:
    """Returns ``count`` compositions, without probabilities at the ends.

    Without these probabilities, the curve is nowhere larger.
    """
    if count == 1:
        return part
    half = repeated_smaller(part, count // 2, tail)
    whole = half.compose(half)
    whole = whole.compose(part) if count % 2 else whole
    p = whole.probabilities
    kept = np.flatnonzero((np.cumsum(p) > tail) & (np.cumsum(p[::-1])[::-1] > tail))
    span = slice(int(kept[0]), int(kept[-1]) + 1)
    return LossDistribution(whole.interval, whole.first + span.start, p[span])


def smaller_loss(width: float, curve: Curve, other: Curve) -> LossDistribution:
    """Returns a discrete loss whose curve is nowhere above one with these bounds."""
    shrink = np.exp(-width * np.arange(len(curve[0]) - 1, 0, -1))
    low, high = (
        np.concatenate([[1.0], 1 - shrink + shrink * y[:0:-1], x])
        for x, y in zip(curve, other, strict=True)
    )
    first = 1 - len(curve[0])
    x = np.concatenate([[0.0], np.exp(width * np.arange(first, len(curve[0])))])
    widths = np.diff(x)
    slopes = np.diff(low) / widths
    left = np.concatenate([[-1.0], (low[1:-1] - high[:-2]) / widths[:-1]])
    right = np.concatenate([(high[2:] - low[1:-1]) / widths[1:], [0.0]])
    before, after = np.maximum(slopes - left, 0.0), np.maximum(right - slopes, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        errors = widths * before * after / (before + after)
    errors = np.where(before + after > 0, errors, 0.0)
    lowered = low[1:] - np.maximum(errors, np.append(errors[1:], 0.0))
    lowered[0] = min(lowered[0], 1 - x[1])  # the curve of a loss has slopes above -1
    lowered = np.maximum(lowered - max(float(lowered[-1]), 0.0), 0.0)
    return LossDistribution.below(width, first, lowered)

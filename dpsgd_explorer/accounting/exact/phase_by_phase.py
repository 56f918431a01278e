"""ε of several phases from the loss distribution of each, where one integral fails.

A contour and a lattice serve all phases at once, so that one odd phase, such as a step
with little noise on a tiny sample, spoils them for all.  Each phase alone has an exact
curve.  Here the upper bounds of these curves become discrete losses on one grid, which
are composed by convolution: an upper bound that is above the truth by the square of the
spacing.  From below, all phases spend no less than one of them alone.

Notation: P phases, K losses of a phase's grid.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Protocol

import numpy as np
import numpy.typing as npt

from dpsgd_explorer.accounting.core.intervals import Floats, Interval
from dpsgd_explorer.accounting.core.loss_distribution import (
    LARGEST_LOSS,
    LossDistribution,
)
from dpsgd_explorer.accounting.core.neighboring_relation import NeighboringRelation
from dpsgd_explorer.accounting.core.phase import Phase

POINTS = 500  # losses of the grid from 0 to ε: δ is off by about (log δ / POINTS)² / 8
MAX_POINTS = 2000  # of all phases together, from 0 on
CURVE_POINTS = 100  # of a curve evaluated at once: the fewer, the nearer to δ
TAIL = 1e-4  # share of δ that the ends of all grids, and of compositions, may take
MAX_PHASES = 8  # each takes a curve of its own


class CurveAccountant(Protocol):
    """Bounds ε and δ of a phase alone."""

    def bounds(
        self,
        phases: Sequence[Phase],
        steps: npt.ArrayLike,
        delta: float,
        relation: NeighboringRelation,
    ) -> list[Interval]:
        """Return the interval of ε after each number of steps."""

    def directed_deltas(
        self,
        phases: Sequence[Phase],
        epsilons: Sequence[float],
        relation: NeighboringRelation,
    ) -> list[tuple[Floats, Floats]]:
        """Return bounds on δ at each ε, per direction."""


def epsilon_phase_by_phase(
    accountant: CurveAccountant,
    phases: Sequence[Phase],
    delta: float,
    relation: NeighboringRelation,
    known: float,
) -> tuple[float, float]:
    """Return a lower and an upper bound on ε of all phases at delta.

    Args:
        accountant: Bounds each phase alone.
        phases: With steps and noise, two or more.
        delta: In (0, 1).
        relation: The difference between neighbouring data sets.
        known: An upper bound on ε, which may be infinite.

    Returns:
        0 and ``known`` where there are too many phases, or losses too large.
    """
    if not 1 < len(phases) <= MAX_PHASES:
        return 0.0, known
    tail = TAIL * delta / (2 * len(phases))

    def alone(phase: Phase, at: float) -> Interval:
        return accountant.bounds([phase], [phase.steps], at, relation)[0]

    lower = max(alone(phase, delta).lower or 0.0 for phase in phases)
    tops = [alone(phase, tail).value for phase in phases]
    total = math.fsum(tops)
    width = min(known, total) / POINTS
    if not 0 < total <= min(LARGEST_LOSS / 2, MAX_POINTS * width):
        return lower, known
    parts: list[list[LossDistribution]] = []
    for phase, top in zip(phases, tops, strict=True):
        losses: Floats = np.asarray(width * np.arange(math.ceil(top / width) + 1))
        curves = [
            np.minimum(curve, np.where(losses < top, 1.0, tail))
            for curve in _curves(accountant, phase, losses, relation)
        ]
        pairs = zip(curves, reversed(curves), strict=True)
        parts.append([LossDistribution.two_tailed(width, *pair) for pair in pairs])

    def both(one: LossDistribution, two: LossDistribution) -> LossDistribution:
        return one.compose(two).trimmed(tail)

    directions = [reduce(both, way) for way in zip(*parts, strict=True)]
    return lower, min(known, max(way.epsilon(delta) for way in directions))


def _curves(
    accountant: CurveAccountant,
    phase: Phase,
    losses: Floats,
    relation: NeighboringRelation,
) -> list[Floats]:
    """Return upper bounds of δ of a phase at each loss, per direction; [K] each."""
    pieces = [
        accountant.directed_deltas([phase], some.tolist(), relation)
        for some in np.array_split(losses, len(losses) // CURVE_POINTS + 1)
    ]
    return [
        np.concatenate([upper for _, upper in way]) for way in zip(*pieces, strict=True)
    ]

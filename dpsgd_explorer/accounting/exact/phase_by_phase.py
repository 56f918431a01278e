"""ε of several phases from the loss distribution of each, where one integral fails.

A contour or a grid of losses covers all phases together, so that one unusual phase,
such as a step with little noise and a tiny sample rate, makes it useless for all.  Each
phase alone has an exact curve.  Here the upper bounds on these curves become discrete
losses on one grid, which are composed by convolution.  The result is an upper bound,
whose error is proportional to the square of the spacing.  The lower bound is the
largest ε of a single phase.

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
    MAX_LOSS,
    LossDistribution,
)
from dpsgd_explorer.accounting.core.neighboring_relation import NeighboringRelation
from dpsgd_explorer.accounting.core.phase import Phase

#: Losses of the grid from 0 to ε: the error of δ is about (log δ / GRID_POINTS)² / 8.
GRID_POINTS = 500
#: Largest number of losses from 0 on, over all phases together.
MAX_POINTS = 2000
#: Points of a curve that are evaluated together: the fewer, the tighter the bounds.
CURVE_POINTS = 100
#: Share of δ for the ends of all grids and compositions.
TAIL_SHARE = 1e-4
#: Largest number of phases: each needs a curve.
MAX_PHASES = 8


class CurveAccountant(Protocol):
    """An accountant that bounds ε and δ of a single phase."""

    def bounds(
        self,
        phases: Sequence[Phase],
        steps: npt.ArrayLike,
        delta: float,
        relation: NeighboringRelation,
    ) -> list[Interval]:
        """Returns the interval of ε after each number of steps."""

    def directed_deltas(
        self,
        phases: Sequence[Phase],
        epsilons: Sequence[float],
        relation: NeighboringRelation,
    ) -> list[tuple[Floats, Floats]]:
        """Returns bounds on δ at each ε, per direction."""


def epsilon_phase_by_phase(
    accountant: CurveAccountant,
    phases: Sequence[Phase],
    delta: float,
    relation: NeighboringRelation,
    upper: float,
) -> tuple[float, float]:
    """Returns a lower and an upper bound on ε of all phases at delta.

    Args:
        accountant: Accountant that bounds each phase alone.
        phases: Two or more phases with steps and noise.
        delta: In (0, 1).
        relation: The difference between neighbouring data sets.
        upper: An upper bound on ε, which may be infinite.

    Returns:
        0 and ``upper`` if there are too many phases, or the losses are too large.
    """
    if not 1 < len(phases) <= MAX_PHASES:
        return 0.0, upper
    tail = TAIL_SHARE * delta / (2 * len(phases))

    def alone(phase: Phase, at: float) -> Interval:
        return accountant.bounds([phase], [phase.steps], at, relation)[0]

    lower = max(alone(phase, delta).lower or 0.0 for phase in phases)
    tops = [alone(phase, tail).value for phase in phases]
    total = math.fsum(tops)
    width = min(upper, total) / GRID_POINTS
    if not 0 < total <= min(MAX_LOSS / 2, MAX_POINTS * width):
        return lower, upper
    parts: list[list[LossDistribution]] = []
    for phase, top in zip(phases, tops, strict=True):
        losses: Floats = np.asarray(width * np.arange(math.ceil(top / width) + 1))
        curves = [
            np.minimum(curve, np.where(losses < top, 1.0, tail))
            for curve in _curves(accountant, phase, losses, relation)
        ]
        pairs = zip(curves, reversed(curves), strict=True)
        parts.append([LossDistribution.two_tailed(width, *pair) for pair in pairs])

    def both(first: LossDistribution, second: LossDistribution) -> LossDistribution:
        return first.compose(second).trimmed(tail)

    directions = [reduce(both, losses) for losses in zip(*parts, strict=True)]
    return lower, min(upper, max(loss.epsilon(delta) for loss in directions))


def _curves(
    accountant: CurveAccountant,
    phase: Phase,
    losses: Floats,
    relation: NeighboringRelation,
) -> list[Floats]:
    """Returns upper bounds on δ of a phase at each loss, per direction; [K] each."""
    chunks = [
        accountant.directed_deltas([phase], chunk.tolist(), relation)
        for chunk in np.array_split(losses, len(losses) // CURVE_POINTS + 1)
    ]
    return [
        np.concatenate([upper for _, upper in bounds])
        for bounds in zip(*chunks, strict=True)
    ]

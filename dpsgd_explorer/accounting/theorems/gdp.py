"""The central limit theorem of Gaussian DP: many steps are nearly one Gaussian.

For T -> infinity with q √T constant, T steps tend to a Gaussian with

    μ = q √(T (e^(1/σ²) - 1)),

and μ² adds up over phases.  For a replaced record the variance of the difference of two
losses takes the place of e^(1/σ²) - 1: μ = 2q √(T sinh(1/σ²)).  A step's μ is at most
1/σ, or 2/σ for a replaced record: the exact μ of a step on all records.  Real runs are
not at the limit: the answer may be above or below the true ε, and far from it after few
steps or with little noise.

Source: Bu, Dong, Long and Su (2019), arXiv:1911.11607v3, Corollary 3.

Notation: P phases, S numbers of steps.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from dpsgd_explorer.accounting.core.accountant import Accountant, Floats, Status
from dpsgd_explorer.accounting.core.gaussian import delta_of_mu, epsilon_of_mu
from dpsgd_explorer.accounting.core.neighboring_relation import (
    REPLACE_ONE,
    NeighboringRelation,
)
from dpsgd_explorer.accounting.core.phase import Phase, StepCounts
from dpsgd_explorer.accounting.core.tolerances import MAX_EXPONENT


class GdpAccountant(Accountant):
    """Computes ε of the Gaussian that the steps converge to."""

    name = "gdp"
    status: ClassVar[Status] = "approximation"

    def _epsilons(self, run: StepCounts, delta: float) -> Floats:
        return np.array(
            [epsilon_of_mu(delta, _mu(run, row)) for row in range(len(run))]
        )

    def _delta(self, run: StepCounts, epsilon: float) -> float:
        return delta_of_mu(epsilon, _mu(run, 0))


def _mu(run: StepCounts, row: int) -> float:
    """Returns μ of a row."""
    pairs = zip(run.phases, run.counts[row], strict=True)
    mus = (math.sqrt(n) * _step_mu(phase, run.relation) for phase, n in pairs if n)
    return math.hypot(*mus)


def _step_mu(phase: Phase, relation: NeighboringRelation) -> float:
    """Returns μ of one step in the limit, infinite without noise."""
    q, sigma = phase.sample_rate, phase.noise_multiplier
    if sigma == 0:
        return math.inf
    unsampled = relation.sensitivity / sigma
    if q == 1 or sigma**-2 > MAX_EXPONENT:
        return unsampled
    is_replaced = relation == REPLACE_ONE
    variance = 4 * math.sinh(sigma**-2) if is_replaced else math.expm1(sigma**-2)
    return min(q * math.sqrt(variance), unsampled)

"""The central limit: many steps nearly are one Gaussian.

As steps grow in number and each tells less, T steps tend to a Gaussian with

    μ = q √(T (e^(1/σ²) - 1)),

and phases add in μ².  Of a replaced record it is the variance of the difference of two
losses that counts, q² (2e^(1/σ²) - 2e^(-1/σ²)): μ = 2q √(T sinh(1/σ²)).  A step is not
counted as more than the same step on all records, whose μ, 1/σ or 2/σ, is exact.  Real
runs are not at the limit: the answer may lie on either side of the truth, far off for
few steps or little noise.

Source: Bu, Dong, Long and Su (2019), arXiv:1911.11607v3, Corollary 3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from dpsgd_explorer.accounting.core.accountant import (
    Accountant,
    Floats,
    Phase,
    Status,
    steps_by_phase,
)
from dpsgd_explorer.accounting.core.gaussian import delta_of_mu, epsilon_of_mu
from dpsgd_explorer.accounting.core.neighboring_relation import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
    NeighboringRelation,
)
from dpsgd_explorer.accounting.core.phase_limits import check_count

LARGEST = 700.0  # whose exponential is a float


class GdpAccountant(Accountant):
    """Reads ε off the Gaussian that the steps tend to."""

    label = "Central limit (GDP)"
    status: ClassVar[Status] = "approximation"
    note = (
        "Not a bound: may be below the truth, by 82 % for one step. "
        "Close for many steps with much noise."
    )
    phase_work = (0.1, 0.05)

    def epsilons(
        self,
        phases: Sequence[Phase],
        steps: npt.ArrayLike,
        delta: float,
        relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
    ) -> Floats:
        asked = np.atleast_1d(np.asarray(steps))
        check_count([self], phases, relation, answers=asked.size)
        counts = steps_by_phase(phases, asked)
        return np.array(
            [epsilon_of_mu(delta, _mu(phases, count, relation)) for count in counts]
        )

    def delta(
        self,
        phases: Sequence[Phase],
        epsilon: float,
        relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
    ) -> float:
        done = [phase.steps for phase in phases]
        return delta_of_mu(epsilon, _mu(phases, done, relation))


def _mu(
    phases: Sequence[Phase],
    counts: Sequence[float] | Floats,
    relation: NeighboringRelation,
) -> float:
    pairs = zip(phases, counts, strict=True)
    parts = (math.sqrt(n) * _step_mu(phase, relation) for phase, n in pairs if n)
    return math.hypot(*parts)


def _step_mu(phase: Phase, relation: NeighboringRelation) -> float:
    q, sigma = phase.sample_rate, phase.noise_multiplier
    if sigma == 0:
        return math.inf
    most = relation.sensitivity / sigma
    if q == 1 or sigma**-2 > LARGEST:
        return most
    replaced = relation == REPLACE_ONE
    spread = 4 * math.sinh(sigma**-2) if replaced else math.expm1(sigma**-2)
    return min(q * math.sqrt(spread), most)

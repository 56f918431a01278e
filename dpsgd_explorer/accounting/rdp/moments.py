"""The moments accountant, as DP-SGD was first published with it.

The log moment of order λ is λ R(1 + λ): the same divergences as those of ``rdp``, of
integer orders up to λ = 32 only, and with the older way back to ε,

    ε = R(α) + log(1/δ) / (α - 1).

Source: Abadi et al. (2016), arXiv:1607.00133v2, Theorem 2 and section 5.
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
    different,
)
from dpsgd_explorer.accounting.core.neighboring_relation import (
    ADD_OR_REMOVE_ONE,
    NeighboringRelation,
)
from dpsgd_explorer.accounting.core.phase_limits import check_count
from dpsgd_explorer.accounting.rdp.accountant import ADDED, AT_ONCE, WORK, composed
from dpsgd_explorer.accounting.rdp.subsampled_gaussian import ORDERS

LARGEST_MOMENT = 32
USED = np.flatnonzero((np.round(ORDERS) == ORDERS) & (ORDERS <= LARGEST_MOMENT + 1))
MOMENTS = ORDERS[USED] - 1  # λ


class MomentsAccountant(Accountant):
    """Adds the log moments of the steps; what the paper of 2016 printed."""

    label = "Moments (2016)"
    status: ClassVar[Status] = "bound"
    note = (
        "Never too small. Orders to 32 and the old conversion: about 30 % above "
        "the exact value, and never below log(1/δ)/32."
    )

    def work(
        self, phases: Sequence[Phase], answers: int, relation: NeighboringRelation
    ) -> float:
        return different(phases) * (WORK[relation] + ADDED * answers)

    def epsilons(
        self,
        phases: Sequence[Phase],
        steps: npt.ArrayLike,
        delta: float,
        relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
    ) -> Floats:
        done = np.atleast_1d(np.asarray(steps))
        check_count([self], phases, relation, answers=done.size)
        parts = np.array_split(done, done.size // AT_ONCE + 1)
        values = np.concatenate(
            [
                (
                    composed(phases, part, relation)[:, USED]
                    - math.log(delta) / MOMENTS
                ).min(axis=1)
                for part in parts
            ]
        )
        return np.where(done > 0, values, 0.0)

    def delta(
        self,
        phases: Sequence[Phase],
        epsilon: float,
        relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
    ) -> float:
        check_count([self], phases, relation)
        total = sum(phase.steps for phase in phases)
        if total == 0:
            return 0.0
        logs = MOMENTS * (composed(phases, [total], relation)[0, USED] - epsilon)
        return math.exp(min(float(logs.min()), 0.0))

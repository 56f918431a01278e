"""Accountants that bound one step first, and then apply a composition theorem.

A share of δ pays for the theorem, the rest is spread evenly over the steps; each step
is (ε₀, δ₀), amplified by sampling, exactly (``step_curve``).  The best of ``shares`` is
taken.  They are fixed, and each of them gives a bound that rises with sample rate and
steps and falls with noise and δ: so does their least.

A replaced record moves the sum twice as far.  On a sample both worlds are mixtures with
the same third, the batch without the record, to which it is nearer: the amplification
holds with the doubled sensitivity (Balle, Barthe and Gaboardi 2018, Theorem 2), as a
bound, no longer exactly.

Notation: S numbers of steps, P phases, H shares.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from dpsgd_explorer.accounting.core.accountant import (
    Accountant,
    Floats,
    Phase,
    Status,
    over_sensitivity,
    steps_by_phase,
)
from dpsgd_explorer.accounting.core.neighboring_relation import (
    ADD_OR_REMOVE_ONE,
    NeighboringRelation,
)
from dpsgd_explorer.accounting.core.phase_limits import check_count
from dpsgd_explorer.accounting.core.root_finding import first_safe
from dpsgd_explorer.accounting.theorems.per_step_epsilon import step_epsilons

AT_ONCE = 256  # numbers of steps: bounds the memory
SHARES = np.concatenate([np.geomspace(1e-4, 0.02, 8), np.arange(0.04, 0.99, 0.02)])
LEAST_LOG_DELTA = -700.0
INVERSION = 15  # questions that a δ is worth


class ByStepAccountant(Accountant):
    """Splits δ between the steps and a theorem, and takes the best split.

    Attributes:
        shares: Parts of δ that the theorem may take, [H].
    """

    status: ClassVar[Status] = "bound"
    shares: ClassVar[Floats] = SHARES
    phase_work = (6.0, 0.35)

    @abstractmethod
    def composed(self, counts: Floats, losses: Floats, slack: Floats) -> Floats:
        """Return ε of all steps by the theorem.

        Shapes: counts [S, 1, P], losses [S, H, P], slack [H] -> [S, H].

        Args:
            counts: Steps of each phase.
            losses: ε₀ of a step of each phase; 0 for one that has not begun.
            slack: δ for the theorem.
        """

    def epsilons(
        self,
        phases: Sequence[Phase],
        steps: npt.ArrayLike,
        delta: float,
        relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
    ) -> Floats:
        asked = np.atleast_1d(np.asarray(steps))
        check_count([self], phases, relation, answers=asked.size)
        counts = steps_by_phase(phases, asked)  # [S, P]
        parts = np.array_split(counts, len(counts) // AT_ONCE + 1)
        over = over_sensitivity(phases, relation)
        return np.concatenate([self._epsilons(over, x, delta) for x in parts])

    def _epsilons(
        self, phases: Sequence[Phase], counts: Floats, delta: float
    ) -> Floats:
        done = np.maximum(counts.sum(axis=1), 1.0)[:, None]  # [S, 1]
        by_step = (1 - self.shares) * delta / done  # [S, H]
        losses = np.stack([step_epsilons(phase, by_step) for phase in phases], axis=-1)
        begun = counts[:, None, :] > 0
        losses = np.where(begun, losses, 0.0)  # [S, H, P]
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            total = self.composed(counts[:, None, :], losses, self.shares * delta)
        total[np.isinf(losses).any(axis=-1)] = math.inf
        return np.asarray(total.min(axis=1))

    def delta(
        self,
        phases: Sequence[Phase],
        epsilon: float,
        relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
    ) -> float:
        check_count([self], phases, relation, questions=INVERSION)
        total = sum(phase.steps for phase in phases)

        def excess(log_delta: float) -> float:
            slack = math.exp(log_delta)
            spent = self.epsilons(phases, [total], slack, relation)[0]
            return 1.0 if math.isinf(spent) else float(spent - epsilon)

        high = math.log1p(-1e-15)
        if total == 0:
            return 0.0
        if excess(high) > 0:
            return 1.0
        if excess(LEAST_LOG_DELTA) <= 0:
            return math.exp(LEAST_LOG_DELTA)
        return math.exp(first_safe(excess, LEAST_LOG_DELTA, high))

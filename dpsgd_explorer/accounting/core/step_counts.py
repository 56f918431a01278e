"""Accountants that answer from the numbers of steps of each phase.

The amount of work is checked before it begins, and many answers are split into parts.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from dpsgd_explorer.accounting.core.accountant import (
    Accountant,
    Floats,
    Phase,
    steps_by_phase,
)
from dpsgd_explorer.accounting.core.neighboring_relation import (
    ADD_OR_REMOVE_ONE,
    NeighboringRelation,
)
from dpsgd_explorer.accounting.core.phase_limits import check_count


class StepCountAccountant(Accountant):
    """Answers from the steps of each phase, whatever the order of the phases.

    Attributes:
        max_rows: Largest number of answers of one evaluation: bounds its memory.
        delta_questions: Evaluations of ε that a δ takes.
    """

    max_rows: ClassVar[int] = 4096
    delta_questions: ClassVar[int] = 1

    @abstractmethod
    def _epsilons(
        self,
        phases: Sequence[Phase],
        counts: Floats,
        delta: float,
        relation: NeighboringRelation,
    ) -> Floats:
        """Return ε at delta of each row; counts [S, P] -> [S]."""

    @abstractmethod
    def _delta(
        self,
        phases: Sequence[Phase],
        counts: Floats,
        epsilon: float,
        relation: NeighboringRelation,
    ) -> float:
        """Return δ at epsilon of one row; counts [1, P]."""

    def epsilons(
        self,
        phases: Sequence[Phase],
        steps: npt.ArrayLike,
        delta: float,
        relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
    ) -> Floats:
        done = np.atleast_1d(np.asarray(steps))
        check_count([self], phases, relation, answers=done.size)
        counts = steps_by_phase(phases, done)
        parts = np.array_split(counts, len(counts) // self.max_rows + 1)
        return np.concatenate(
            [self._epsilons(phases, part, delta, relation) for part in parts]
        )

    def delta(
        self,
        phases: Sequence[Phase],
        epsilon: float,
        relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
    ) -> float:
        check_count([self], phases, relation, questions=self.delta_questions)
        counts = np.array([[phase.steps for phase in phases]], dtype=np.float64)
        return self._delta(phases, counts, epsilon, relation)

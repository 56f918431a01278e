"""The interface of an accountant, which bounds the privacy loss of phases.

A large number of answers is computed in parts, which bounds the memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from dpsgd_explorer.accounting.core import validation
from dpsgd_explorer.accounting.core.intervals import Floats, Interval, Status
from dpsgd_explorer.accounting.core.neighboring_relation import (
    ADD_OR_REMOVE_ONE,
    NeighboringRelation,
)
from dpsgd_explorer.accounting.core.phase import (
    Phase,
    StepCounts,
    allocation_reason,
    require_poisson,
)
from dpsgd_explorer.accounting.core.trade_off import largest_rates

__all__ = ["Accountant", "Floats", "Phase", "Status"]  # types from one module


class Accountant(ABC):
    """Bounds the privacy loss of a sequence of phases.

    Callers check the arguments, as ``queries`` does.

    >>> from dpsgd_explorer.accounting import ACCOUNTANTS
    >>> rdp = ACCOUNTANTS["rdp"]
    >>> [after] = rdp.epsilons([Phase(0.01, 1.1, 1000)], [1000], 1e-5)
    >>> rdp.status, round(float(after), 4), rdp
    ('bound', 1.7118, RdpAccountant(status='bound'))

    Attributes:
        name: Value of the argument ``accountant`` that chooses it.
        status: "exact", "bound" (never too small) or "approximation".
        counts_truncated_batches: If True, it bounds truncated Poisson batches.
        counts_slots: If True, it bounds random allocation.
        max_rows: Largest number of answers of one evaluation, which bounds the memory.
    """

    name: ClassVar[str]
    status: ClassVar[Status]
    counts_truncated_batches: ClassVar[bool] = False
    counts_slots: ClassVar[bool] = False
    max_rows: ClassVar[int] = 4096

    def __repr__(self) -> str:
        return f"{type(self).__name__}(status={self.status!r})"

    @abstractmethod
    def _epsilons(self, run: StepCounts, delta: float) -> Floats:
        """Returns ε at delta of each row, [S]."""

    @abstractmethod
    def _delta(self, run: StepCounts, epsilon: float) -> float:
        """Returns δ at epsilon of the only row."""

    def epsilons(
        self,
        phases: Sequence[Phase],
        steps: npt.ArrayLike,
        delta: float,
        relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
    ) -> Floats:
        """Returns epsilon after each number of steps.

        Shapes: steps [S] -> [S].

        Args:
            phases: Phases in their order.
            steps: Steps done so far, each from 0 to the sum over the phases.
            delta: In (0, 1).
            relation: The difference between neighbouring data sets.

        Returns:
            0 after no step, infinity without noise.
        """
        run, target = self._checked(phases, steps, relation), validation.delta(delta)
        parts = run.split(self.max_rows)
        return np.concatenate([self._epsilons(part, target) for part in parts])

    def _checked(
        self,
        phases: Sequence[Phase],
        steps: npt.ArrayLike,
        relation: NeighboringRelation,
    ) -> StepCounts:
        """Returns the steps of each phase."""
        self._require_counted(phases)
        return StepCounts.along(phases, validation.step_counts(steps), relation)

    def searchers(self, relation: NeighboringRelation) -> tuple[Accountant, ...]:
        """Returns the accountants of a search, the fastest first.

        ε of the last accountant is an upper bound, and confirms the result of the
        search; ε of the others may be too small.
        """
        return (self,)

    def delta(
        self,
        phases: Sequence[Phase],
        epsilon: float,
        relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
    ) -> float:
        """Returns the delta of all phases at this epsilon >= 0; 1 without noise."""
        self._require_counted(phases)
        loss = validation.epsilon(epsilon)
        return self._delta(StepCounts.whole(phases, relation), loss)

    def bounds(
        self,
        phases: Sequence[Phase],
        steps: npt.ArrayLike,
        delta: float,
        relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
    ) -> list[Interval]:
        """Returns the interval of ε after each number of steps, as ``epsilons``."""
        run, target = self._checked(phases, steps, relation), validation.delta(delta)
        parts = run.split(self.max_rows)
        return [x for part in parts for x in self._intervals(part, target)]

    def _intervals(self, run: StepCounts, delta: float) -> list[Interval]:
        """Returns the interval of ε at delta of each row."""
        values = self._epsilons(run, delta).tolist()
        return [Interval.one_sided(value, self.status) for value in values]

    def delta_bounds(
        self,
        phases: Sequence[Phase],
        epsilons: Sequence[float],
        relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
    ) -> list[Interval]:
        """Returns the interval of δ of all phases at each ε >= 0, as ``delta``."""
        values = [self.delta(phases, epsilon, relation) for epsilon in epsilons]
        return [Interval.one_sided(value, self.status) for value in values]

    def trade_off(
        self,
        phases: Sequence[Phase],
        false_positive_rates: Floats,
        relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
    ) -> list[Interval]:
        """Returns the interval of the largest true positive rate at each rate; [F]."""
        total = [sum(phase.steps for phase in phases)]

        def epsilon(delta: float) -> float:
            return float(self.epsilons(phases, total, delta, relation)[0])

        rates = largest_rates(false_positive_rates, epsilon).tolist()
        status: Status = "bound" if self.status == "exact" else self.status
        return [Interval.one_sided(rate, status) for rate in rates]

    def why_not(self, phases: Sequence[Phase]) -> str:
        """Returns the reason why the accountant does not apply to the phases, or "".

        If there is a reason, ``epsilons`` and ``delta`` raise AccountingError.
        """
        if self.counts_slots:
            return ""
        return allocation_reason(phases, f"accountant {self.name!r}")

    def _require_counted(self, phases: Sequence[Phase]) -> None:
        """Raises AccountingError if steps use a sampling that it does not bound."""
        if not self.counts_slots:
            require_poisson(phases, f"accountant {self.name!r}")

"""The interface of an accountant, and the phases of a run.

A run whose noise or sampling changes is a sequence of ``Phase`` objects, plain data; an
``Accountant`` bounds its privacy loss.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from dpsgd_explorer.accounting.core import validation
from dpsgd_explorer.accounting.core.intervals import Floats, Interval, Preview, Status
from dpsgd_explorer.accounting.core.neighboring_relation import (
    ADD_OR_REMOVE_ONE,
    NeighboringRelation,
)
from dpsgd_explorer.accounting.core.trade_off import largest_rates

__all__ = ["Accountant", "Floats", "Phase", "Status"]  # types from one module


@dataclass(frozen=True)
class Phase:
    """Steps of one Poisson-subsampled Gaussian; an instance that exists is valid.

    Attributes:
        sample_rate: Inclusion probability q of each record in each step, in (0, 1].
        noise_multiplier: Noise std over the sensitivity, at least 0.
        steps: Number of steps, at least 0.

    Raises:
        AccountingError: names the attribute that is outside its domain.
    """

    sample_rate: float
    noise_multiplier: float
    steps: int

    def __post_init__(self) -> None:
        validation.sample_rate(self.sample_rate)
        validation.noise_multiplier(self.noise_multiplier)
        validation.steps(self.steps)


class Accountant(ABC):
    """Bounds the privacy loss of a sequence of phases.

    Callers check the arguments, as ``queries`` does.

    Attributes:
        label: Name on pages.
        status: "exact", "bound" (never too small) or "approximation".
        note: One sentence on the accuracy of the answers.
        counts_truncated_batches: Whether it bounds truncated Poisson batches.
        phase_work: CPU time of a different phase, per question and per answer, in
            fifths of a millisecond.
    """

    label: ClassVar[str]
    status: ClassVar[Status]
    note: ClassVar[str]
    counts_truncated_batches: ClassVar[bool] = False
    phase_work: ClassVar[tuple[float, float]] = (1.0, 0.2)

    @abstractmethod
    def epsilons(
        self,
        phases: Sequence[Phase],
        steps: npt.ArrayLike,
        delta: float,
        relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
    ) -> Floats:
        """Return epsilon after each number of steps.

        Shapes: steps [S] -> [S].

        Args:
            phases: Phases in their order.
            steps: Steps done so far, each from 0 to the sum over the phases.
            delta: In (0, 1).
            relation: The difference between neighbouring data sets.

        Returns:
            0 after no step, infinity without noise.
        """

    def searchers(
        self, relation: NeighboringRelation, *, quick: bool = False
    ) -> tuple[Accountant, ...]:
        """Return accountants for searches, the quickest first, the last one to confirm.

        The last one's ε is an upper bound; that of the others may be too small.  Quick
        ones take a few milliseconds at any setting, with wider bounds.
        """
        return (self,)

    @abstractmethod
    def delta(
        self,
        phases: Sequence[Phase],
        epsilon: float,
        relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
    ) -> float:
        """Return the delta of all phases at this epsilon >= 0; 1 without noise."""

    def bounds(
        self,
        phases: Sequence[Phase],
        steps: npt.ArrayLike,
        delta: float,
        relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
    ) -> list[Interval]:
        """Return the interval of ε after each number of steps, as ``epsilons``."""
        values = self.epsilons(phases, steps, delta, relation).tolist()
        return [Interval.one_sided(value, self.status) for value in values]

    def delta_bounds(
        self,
        phases: Sequence[Phase],
        epsilons: Sequence[float],
        relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
    ) -> list[Interval]:
        """Return the interval of δ of all phases at each ε >= 0, as ``delta``."""
        values = [self.delta(phases, epsilon, relation) for epsilon in epsilons]
        return [Interval.one_sided(value, self.status) for value in values]

    def trade_off(
        self,
        phases: Sequence[Phase],
        false_positive_rates: Floats,
        relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
    ) -> list[Interval]:
        """Return the interval of the largest true positive rate at each rate; [F]."""
        total = [sum(phase.steps for phase in phases)]

        def epsilon(delta: float) -> float:
            return float(self.epsilons(phases, total, delta, relation)[0])

        rates = largest_rates(false_positive_rates, epsilon).tolist()
        status: Status = "bound" if self.status == "exact" else self.status
        return [Interval.one_sided(rate, status) for rate in rates]

    def preview(
        self,
        run: Phase,
        steps: Sequence[int],
        delta: float,
        relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
        *,
        quick: bool = False,
    ) -> Preview:
        """Return ε after some of the steps, the last among them.

        Args:
            run: The planned steps.
            steps: Numbers of steps, ascending, at least one.
            delta: In (0, 1).
            relation: The difference between neighbouring data sets.
            quick: Take a few milliseconds, with wider bounds of fewer steps.
        """
        spent = self.bounds([run], steps, delta, relation)
        return Preview(list(steps), [x.value for x in spent], spent[-1])

    def work(
        self, phases: Sequence[Phase], answers: int, relation: NeighboringRelation
    ) -> float:
        """Return about the CPU time of the answers, in fifths of a millisecond."""
        question, answer = self.phase_work
        return different(phases) * (question + answer * answers)

    def why_not(self, phases: Sequence[Phase]) -> str:
        """Return the reason why it does not apply to the phases, "" where it does.

        Where there is a reason, ``epsilons`` and ``delta`` raise AccountingError.
        """
        return ""


def different(phases: Sequence[Phase]) -> int:
    """Return the number of different pairs of sample rate and noise multiplier."""
    return len({(phase.sample_rate, phase.noise_multiplier) for phase in phases})


def over_sensitivity(
    phases: Sequence[Phase], relation: NeighboringRelation
) -> list[Phase]:
    """Return the phases with noise over the sensitivity of the relation."""
    moves = relation.sensitivity
    return [
        Phase(phase.sample_rate, phase.noise_multiplier / moves, phase.steps)
        for phase in phases
    ]


def steps_by_phase(phases: Sequence[Phase], steps: npt.ArrayLike) -> Floats:
    """Return the steps of each phase among the first steps of a run.

    Shapes: steps [S], P phases -> [S, P].
    """
    lengths = np.array([phase.steps for phase in phases], dtype=np.float64)  # [P]
    starts = np.cumsum(lengths) - lengths  # [P]
    done = np.asarray(steps, dtype=np.float64)[:, None]  # [S, 1]
    return np.clip(done - starts, 0.0, lengths)

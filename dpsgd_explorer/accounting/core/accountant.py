"""What an accountant is asked, and what it must answer.

What was done (``Phase``, plain data) is kept apart from how it is bounded
(``Accountant``): a run whose noise or sampling changes is a sequence of phases, and
an accountant is one file and one line of the table.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from dpsgd_explorer.accounting.core import validation as domains

Status = Literal["exact", "bound", "approximation"]
Floats = npt.NDArray[np.float64]
SENSITIVITY = {"add_or_remove_one": 1.0, "replace_one": 2.0}
"""Clipping bounds by which one record can move the sum of a step, by relation."""


@dataclass(frozen=True)
class Phase:
    """Steps of one Poisson-subsampled Gaussian; an instance that exists is valid.

    Attributes:
        sample_rate: Inclusion probability q of each record in each step, in (0, 1].
        noise_multiplier: Noise std over the sensitivity, at least 0.
        steps: How often it ran, at least 0.

    Raises:
        AccountingError: names the attribute that is outside its domain.
    """

    sample_rate: float
    noise_multiplier: float
    steps: int

    def __post_init__(self) -> None:
        domains.sample_rate(self.sample_rate)
        domains.noise_multiplier(self.noise_multiplier)
        domains.steps(self.steps)


class Accountant(ABC):
    """Bounds the privacy loss of a sequence of phases.

    Arguments are valid when they arrive: ``queries`` checks them.

    Attributes:
        label: Name for people.
        status: Whether its answers are exact, never too small, or neither.
        note: One sentence on what the answers are worth.
        neighboring_relations: What "one record" may mean.
        phase_work: What a different phase takes, of a question and of each answer, in
            fifths of a millisecond.
    """

    label: ClassVar[str]
    status: ClassVar[Status]
    note: ClassVar[str]
    neighboring_relations: ClassVar[tuple[str, ...]] = tuple(SENSITIVITY)
    phase_work: ClassVar[tuple[float, float]] = (1.0, 0.2)

    @abstractmethod
    def epsilons(
        self,
        phases: Sequence[Phase],
        steps: npt.ArrayLike,
        delta: float,
        relation: str = "add_or_remove_one",
    ) -> Floats:
        """Return epsilon after each number of steps.

        Shapes: steps [S] -> [S].

        Args:
            phases: What is done, in this order.
            steps: Steps done so far, each from 0 to the sum over the phases.
            delta: In (0, 1).
            relation: One of ``neighboring_relations``.

        Returns:
            0 after no step, infinity without noise.
        """

    def searchers(
        self, relation: str, *, quick: bool = False
    ) -> tuple[Accountant, ...]:
        """Return accountants for searches, the quickest first, the last one to confirm.

        The bounds of the last hold as well; the others may say less than is spent.
        Quick ones take a few milliseconds at any setting; their bounds may be wider.
        """
        return (self,)

    @abstractmethod
    def delta(
        self,
        phases: Sequence[Phase],
        epsilon: float,
        relation: str = "add_or_remove_one",
    ) -> float:
        """Return the delta of all phases at this epsilon >= 0; 1 without noise."""

    def work(self, phases: Sequence[Phase], answers: int, relation: str) -> float:
        """Return about what so many answers take, in fifths of a millisecond."""
        question, answer = self.phase_work
        return different(phases) * (question + answer * answers)

    def why_not(self, phases: Sequence[Phase]) -> str:
        """Return why it says nothing of these phases, "" where it does.

        Where there is a reason, ``epsilons`` and ``delta`` raise AccountingError.
        """
        return ""


def different(phases: Sequence[Phase]) -> int:
    """Return how many pairs of sample rate and noise multiplier there are."""
    return len({(phase.sample_rate, phase.noise_multiplier) for phase in phases})


def over_sensitivity(phases: Sequence[Phase], relation: str) -> list[Phase]:
    """Return the phases with noise over what one record of this relation can move."""
    moves = SENSITIVITY[relation]
    return [
        Phase(phase.sample_rate, phase.noise_multiplier / moves, phase.steps)
        for phase in phases
    ]


def steps_by_phase(phases: Sequence[Phase], steps: npt.ArrayLike) -> Floats:
    """Split numbers of steps done over the phases, in their order.

    Shapes: steps [S], P phases -> [S, P].
    """
    lengths = np.array([phase.steps for phase in phases], dtype=np.float64)  # [P]
    starts = np.cumsum(lengths) - lengths  # [P]
    done = np.asarray(steps, dtype=np.float64)[:, None]  # [S, 1]
    return np.clip(done - starts, 0.0, lengths)

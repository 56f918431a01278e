"""The phases of a run, plain data: steps whose noise and sampling do not change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dpsgd_explorer.accounting.core import validation
from dpsgd_explorer.accounting.core.intervals import Floats
from dpsgd_explorer.accounting.core.neighboring_relation import NeighboringRelation


@dataclass(frozen=True)
class Phase:
    """Steps of one Poisson-subsampled Gaussian; an instance that exists is valid.

    >>> Phase(sample_rate=0.01, noise_multiplier=1.1, steps=1000)
    Phase(sample_rate=0.01, noise_multiplier=1.1, steps=1000)

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
        checked = {
            "sample_rate": validation.sample_rate(self.sample_rate),
            "noise_multiplier": validation.noise_multiplier(self.noise_multiplier),
            "steps": validation.steps(self.steps),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)


@dataclass(frozen=True)
class StepCounts:
    """Numbers of steps of the same phases, one row per answer.

    Attributes:
        phases: Phases, whose own numbers of steps do not count, P of them.
        counts: Steps of each phase in each row, [S, P].
        relation: The difference between neighbouring data sets.
    """

    phases: Sequence[Phase]
    counts: Floats
    relation: NeighboringRelation

    @classmethod
    def along(
        cls,
        phases: Sequence[Phase],
        steps: npt.ArrayLike,
        relation: NeighboringRelation,
    ) -> StepCounts:
        """Return the steps of each phase among the first steps of a run.

        Shapes: steps [S], one row each.
        """
        lengths = np.array([phase.steps for phase in phases], dtype=np.float64)  # [P]
        starts = np.cumsum(lengths) - lengths  # [P]
        done = np.asarray(steps, dtype=np.float64)[:, None]  # [S, 1]
        return cls(phases, np.clip(done - starts, 0.0, lengths), relation)

    @classmethod
    def whole(
        cls, phases: Sequence[Phase], relation: NeighboringRelation
    ) -> StepCounts:
        """Return the one row of all steps of the phases."""
        counts = np.array([[phase.steps for phase in phases]], dtype=np.float64)
        return cls(phases, counts, relation)

    def __len__(self) -> int:
        return len(self.counts)

    def rows(self, index: Any) -> StepCounts:
        """Return some of the rows, chosen by an index of numpy."""
        return replace(self, counts=self.counts[index])

    def split(self, most: int) -> Iterator[StepCounts]:
        """Yield parts of about ``most`` rows, in their order."""
        for part in np.array_split(self.counts, len(self) // most + 1):
            yield replace(self, counts=part)

    def over_sensitivity(self) -> list[Phase]:
        """Return the phases with noise over the sensitivity of the relation."""
        return [
            replace(
                phase,
                noise_multiplier=phase.noise_multiplier / self.relation.sensitivity,
            )
            for phase in self.phases
        ]


def first_steps(phases: Iterable[Phase], steps: int) -> list[Phase]:
    """Return the phases of the first ``steps`` steps; the first of them at least."""
    cut: list[Phase] = []
    for phase in phases:
        done = min(phase.steps, steps)
        if done or not cut:
            cut.append(replace(phase, steps=done))
        steps -= done
    return cut


def joined(phases: Iterable[Phase]) -> list[Phase]:
    """Return the same steps, those in a row with equal settings in one phase."""
    found: list[Phase] = []
    for phase in phases:
        last = found[-1] if found else None
        if last and replace(phase, steps=last.steps) == last:
            found[-1] = replace(last, steps=last.steps + phase.steps)
        elif phase.steps:
            found.append(phase)
    return found


def different(phases: Iterable[Phase]) -> int:
    """Return the number of different pairs of sample rate and noise multiplier."""
    return len({(phase.sample_rate, phase.noise_multiplier) for phase in phases})

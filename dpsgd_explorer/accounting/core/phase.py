"""The phases of a run as plain data: steps with constant noise and sample rate."""

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
    """Steps of one Poisson-subsampled Gaussian, checked on creation.

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
    """Numbers of steps of some phases, one row per answer.

    Attributes:
        phases: The P phases; their ``steps`` are ignored.
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
        """Returns the steps of each phase among the first steps of a run.

        Shapes: steps [S], one row for each number.
        """
        lengths = np.array([phase.steps for phase in phases], dtype=np.float64)  # [P]
        starts = np.cumsum(lengths) - lengths  # [P]
        done = np.asarray(steps, dtype=np.float64)[:, None]  # [S, 1]
        return cls(phases, np.clip(done - starts, 0.0, lengths), relation)

    @classmethod
    def whole(
        cls, phases: Sequence[Phase], relation: NeighboringRelation
    ) -> StepCounts:
        """Returns a single row with all steps of the phases."""
        counts = np.array([[phase.steps for phase in phases]], dtype=np.float64)
        return cls(phases, counts, relation)

    def __len__(self) -> int:
        return len(self.counts)

    def rows(self, index: Any) -> StepCounts:
        """Returns some of the rows, chosen by a numpy index."""
        return replace(self, counts=self.counts[index])

    def split(self, most: int) -> Iterator[StepCounts]:
        """Yields parts of at most ``most`` rows, in their order."""
        for part in np.array_split(self.counts, len(self) // most + 1):
            yield replace(self, counts=part)

    def over_sensitivity(self) -> list[Phase]:
        """Returns the phases with noise over the sensitivity of the relation."""
        return [
            replace(
                phase,
                noise_multiplier=phase.noise_multiplier / self.relation.sensitivity,
            )
            for phase in self.phases
        ]


def first_steps(phases: Iterable[Phase], steps: int) -> list[Phase]:
    """Returns the phases of the first ``steps`` steps, at least the first phase."""
    cut: list[Phase] = []
    for phase in phases:
        done = min(phase.steps, steps)
        if done or not cut:
            cut.append(replace(phase, steps=done))
        steps -= done
    return cut


def joined(phases: Iterable[Phase]) -> list[Phase]:
    """Returns the phases with steps, consecutive ones with equal settings merged."""
    merged: list[Phase] = []
    for phase in phases:
        last = merged[-1] if merged else None
        if last and replace(phase, steps=last.steps) == last:
            merged[-1] = replace(last, steps=last.steps + phase.steps)
        elif phase.steps:
            merged.append(phase)
    return merged


def count_settings(phases: Iterable[Phase]) -> int:
    """Returns the number of different pairs of sample rate and noise multiplier."""
    return len({(phase.sample_rate, phase.noise_multiplier) for phase in phases})

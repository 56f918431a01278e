"""The phases of a run as plain data: steps with constant noise and sampling."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dpsgd_explorer.accounting.core import validation
from dpsgd_explorer.accounting.core.intervals import Floats
from dpsgd_explorer.accounting.core.neighboring_relation import (
    REPLACE_ONE,
    NeighboringRelation,
)
from dpsgd_explorer.errors import AccountingError

#: Largest number of slots of an epoch.
MAX_SLOTS = 1_000_000


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


@dataclass(frozen=True, kw_only=True)
class AllocationPhase(Phase):
    """Steps of random allocation, checked on creation.

    An epoch has t steps, its slots.  In each epoch, every record draws one slot, afresh
    and independently; the step of this slot uses the record.  A phase begins with the
    first slot of an epoch.  Its last epoch may be incomplete.

    >>> AllocationPhase(slots=100, noise_multiplier=1.1, steps=1000)
    AllocationPhase(noise_multiplier=1.1, steps=1000, slots=100)

    Attributes:
        slots: Steps of an epoch, t.
        noise_multiplier: Noise std over the sensitivity, at least 0.
        steps: Number of steps, at least 0.
        sample_rate: Probability of a record to be used in a given step, 1/t.

    Raises:
        AccountingError: names the attribute that is outside its domain.
    """

    sample_rate: float = field(init=False, repr=False)
    slots: int

    def __post_init__(self) -> None:
        slots = validation.whole("slots", self.slots, 1, MAX_SLOTS)
        object.__setattr__(self, "slots", slots)
        object.__setattr__(self, "sample_rate", 1 / slots)
        super().__post_init__()


def phase_with(
    sample_rate: float,
    noise_multiplier: float,
    steps: int,
    slots: int | None = None,
    bands: int = 1,
) -> Phase:
    """Returns steps of random allocation if there are slots, else Poisson steps.

    With b bands of correlated noise, b steps of cyclic Poisson sampling together cost
    one Poisson step of rate b times the sample rate.
    """
    if slots is None:
        return Phase(sample_rate * bands, noise_multiplier, -(-steps // bands))
    return AllocationPhase(noise_multiplier=noise_multiplier, steps=steps, slots=slots)


def has_slots(phases: Iterable[Phase]) -> bool:
    """Returns True if steps of a phase use random allocation."""
    return any(isinstance(phase, AllocationPhase) for phase in phases)


def require_poisson(phases: Iterable[Phase], subject: str) -> None:
    """Raises AccountingError if steps of a phase use random allocation.

    Args:
        phases: Phases.
        subject: Computation that has no proven answer for random allocation.
    """
    if reason := allocation_reason(phases, subject):
        raise AccountingError(reason, field="sampling")


def allocation_reason(phases: Iterable[Phase], subject: str) -> str:
    """Returns the reason why a computation does not apply to the phases, or ""."""
    slots = [phase.slots for phase in phases if isinstance(phase, AllocationPhase)]
    if not slots:
        return ""
    return (
        f"sampling must be 'poisson' for {subject}, got random allocation with "
        f"{slots[0]} slots. Only the exact accountant bounds random allocation."
    )


def phase_of(data: Mapping[str, Any]) -> Phase:
    """Returns the phase of a mapping that ``dataclasses.asdict`` returned.

    Raises:
        AccountingError: a value is outside its domain.
        TypeError: a name is missing or unknown.
    """
    if "slots" not in data:
        return Phase(**data)
    phase = AllocationPhase(**{k: v for k, v in data.items() if k != "sample_rate"})
    if data.get("sample_rate") != phase.sample_rate:
        rule = f"1/slots = {phase.sample_rate!r}"
        validation.refuse("sample_rate", rule, data.get("sample_rate"))
    return phase


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

    def __post_init__(self) -> None:
        if self.relation is REPLACE_ONE and has_slots(self.phases):
            validation.refuse(
                "neighboring_relation",
                "'add_or_remove_one' for random allocation, because no bound for a "
                "replaced record is proven",
                str(self.relation),
            )

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
        if last and is_continued_by(last, phase):
            merged[-1] = replace(last, steps=last.steps + phase.steps)
        elif phase.steps:
            merged.append(phase)
    return merged


def is_continued_by(phase: Phase, further: Phase) -> bool:
    """Returns True if both together are one phase with the sum of their steps.

    An epoch of random allocation that is incomplete is not continued: the further phase
    begins with new draws.
    """
    if replace(further, steps=phase.steps) != phase:
        return False
    return not isinstance(phase, AllocationPhase) or phase.steps % phase.slots == 0


def count_settings(phases: Iterable[Phase]) -> int:
    """Returns the number of different settings, apart from the steps."""
    return len({replace(phase, steps=0) for phase in phases})

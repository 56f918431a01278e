"""What was done, step by step, to be laid beside what the accountant was told."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from dpsgd_explorer.dp.losses.reading import LossRecord


@dataclass(frozen=True, kw_only=True)
class Release:
    """Equal steps in a row, as they were carried out.

    Attributes:
        sample_rate: Of the sampler that drew the batches.
        noise_multiplier: Noise std on the sum over the clipping bound, as used.
        noise_draws: Times that noise was drawn; one a step where there is any.
        noise_numbers: Entries that got noise.
        parameters: Entries of a gradient.
        max_grad_norm: Clipping bound, as used.
        divisor: What the noisy sum was divided by.
        steps: How many.
        count_noise_multiplier: Noise std over the sensitivity of the counts that were
            released beside the gradients; 0 if there were none.
    """

    sample_rate: float
    noise_multiplier: float
    noise_draws: int
    noise_numbers: int
    parameters: int
    max_grad_norm: float
    divisor: float
    steps: int = 1
    count_noise_multiplier: float = 0.0

    def same_settings(self, other: Release) -> bool:
        """Whether the two differ in their counts at most."""
        return self._settings() == other._settings()

    def _settings(self) -> tuple[float, ...]:
        return (
            self.sample_rate,
            self.noise_multiplier,
            self.parameters,
            self.max_grad_norm,
            self.divisor,
            self.count_noise_multiplier,
        )

    def __add__(self, other: Release) -> Release:
        return replace(
            self,
            steps=self.steps + other.steps,
            noise_draws=self.noise_draws + other.noise_draws,
            noise_numbers=self.noise_numbers + other.noise_numbers,
        )


@dataclass(frozen=True, kw_only=True)
class BatchSizes:
    """How many samples the batches had.  Not private."""

    batches: int = 0
    samples: int = 0
    smallest: int | None = None
    largest: int | None = None
    empty: int = 0

    def with_one(self, size: int) -> BatchSizes:
        """Return the same with one batch more."""
        return BatchSizes(
            batches=self.batches + 1,
            samples=self.samples + size,
            smallest=size if self.smallest is None else min(size, self.smallest),
            largest=size if self.largest is None else max(size, self.largest),
            empty=self.empty + (size == 0),
        )


class Ledger:
    """Counts releases; steps with the same settings share a line.

    Attributes:
        releases: The lines.
        batch_sizes: Of the steps whose batches are known.
        lost_steps: Steps that were released, and then lost in a crash: they count.
        fresh_resumes: Times the run went on from a state with noise and batches other
            than it would have had.
        writer: Random name of the engine that records here.
        released_by: {writer: steps that it has released}.  States that branched off
            one run have their common steps under the same names, so that these are
            counted once and all others are added.
        losses: What the graphs of the losses tell.
    """

    def __init__(self, writer: str | None = None) -> None:
        self.writer = writer or uuid.uuid4().hex
        self.released_by: dict[str, int] = {}
        self.releases: list[Release] = []
        self.batch_sizes = BatchSizes()
        self.lost_steps = 0
        self.fresh_resumes = 0
        self.losses = LossRecord()

    @property
    def steps(self) -> int:
        """Steps done."""
        return sum(release.steps for release in self.releases)

    def record(self, release: Release, batch_size: int) -> None:
        """Write a step down."""
        self._add(release)
        self._credit(self.writer, release.steps)
        self.batch_sizes = self.batch_sizes.with_one(batch_size)

    def record_lost(self, release: Release) -> None:
        """Write steps down that were released, but of which no state is left."""
        self._add(release)
        self.lost_steps += release.steps

    def missing(self, released_by: Mapping[str, int]) -> int:
        """Return how many steps of another ledger this one does not know of."""
        known = self.released_by
        return sum(max(0, n - known.get(w, 0)) for w, n in released_by.items())

    def learn(self, released_by: Mapping[str, int], lost: int) -> None:
        """Know of another ledger's steps, and of so many in all that were lost."""
        unnamed = lost - self.missing(released_by)
        for writer, steps in released_by.items():
            self.released_by[writer] = max(steps, self.released_by.get(writer, 0))
        if unnamed > 0:
            self._credit(self.writer, unnamed)

    def _credit(self, writer: str, steps: int) -> None:
        self.released_by[writer] = self.released_by.get(writer, 0) + steps

    def _add(self, release: Release) -> None:
        if self.releases and self.releases[-1].same_settings(release):
            self.releases[-1] += release
        else:
            self.releases.append(release)

    def lines(self) -> list[dict[str, Any]]:
        """Return the lines as JSON values; without counts where there were none."""
        lines = [asdict(release) for release in self.releases]
        for line in lines:
            if not line["count_noise_multiplier"]:
                del line["count_noise_multiplier"]
        return lines

    def as_data(self) -> dict[str, Any]:
        """Return all of it as JSON values."""
        return {
            "releases": self.lines(),
            "batch_sizes": asdict(self.batch_sizes),
            "lost_steps": self.lost_steps,
            "fresh_resumes": self.fresh_resumes,
            "released_by": dict(self.released_by),
            "losses": self.losses.as_data(),
        }

    @classmethod
    def from_data(cls, data: dict[str, Any], writer: str | None = None) -> Ledger:
        """Read what ``as_data`` wrote; go on under the writer's name."""
        ledger = cls(writer)
        lines: Sequence[dict[str, Any]] = data["releases"]
        ledger.releases = [Release(**line) for line in lines]
        ledger.batch_sizes = BatchSizes(**data["batch_sizes"])
        ledger.lost_steps = data["lost_steps"]
        ledger.fresh_resumes = data["fresh_resumes"]
        ledger.released_by = dict(data["released_by"])
        ledger.losses = LossRecord.from_data(data["losses"])
        return ledger

"""The ledger: a record of the steps as they were done, for comparison with the plan."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from operator import attrgetter
from typing import Any

from dpsgd_explorer.dp.checks.loss.reading import LossRecord


@dataclass(frozen=True, kw_only=True)
class Release:
    """Consecutive steps with equal settings, as they were done.

    Attributes:
        sample_rate: Rate of the sampler that drew the batches.
        noise_multiplier: Standard deviation of the noise on the clipped sum, divided by
            the clipping bound, as used.  Of correlated noise, that of the fresh noise
            zₜ, divided by the norm of the strategy's column too.
        noise_draws: Number of noise draws; one per step if the run is private.
        noise_numbers: Number of entries that noise was added to, over all steps.
        parameters: Number of entries of a gradient.
        max_grad_norm: Clipping bound, as used.
        divisor: Divisor of the noisy sum.
        steps: Number of steps.
        count_noise_multiplier: Standard deviation of the noise on the counts that
            adaptive clipping released with the gradients, divided by their sensitivity;
            0 without adaptive clipping.
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
        """Returns True if both have equal settings; steps and draws may differ."""
        return bool(_settings(self) == _settings(other))

    def __add__(self, other: Release) -> Release:
        return Release(
            sample_rate=self.sample_rate,
            noise_multiplier=self.noise_multiplier,
            noise_draws=self.noise_draws + other.noise_draws,
            noise_numbers=self.noise_numbers + other.noise_numbers,
            parameters=self.parameters,
            max_grad_norm=self.max_grad_norm,
            divisor=self.divisor,
            steps=self.steps + other.steps,
            count_noise_multiplier=self.count_noise_multiplier,
        )


_settings = attrgetter(
    *("sample_rate", "noise_multiplier", "parameters", "max_grad_norm", "divisor"),
    "count_noise_multiplier",
)


@dataclass(frozen=True, kw_only=True)
class BatchSizes:
    """Statistics of the sizes of the drawn batches.  Not private.

    Attributes:
        batches: Number of batches.
        samples: Total number of samples.
        smallest: Smallest batch size; None before the first batch.
        largest: Largest batch size; None before the first batch.
        empty: Number of empty batches.
    """

    batches: int = 0
    samples: int = 0
    smallest: int | None = None
    largest: int | None = None
    empty: int = 0

    def added(self, size: int) -> BatchSizes:
        """Returns the statistics with one more batch."""
        return BatchSizes(
            batches=self.batches + 1,
            samples=self.samples + size,
            smallest=size if self.smallest is None else min(size, self.smallest),
            largest=size if self.largest is None else max(size, self.largest),
            empty=self.empty + (size == 0),
        )


class Ledger:
    """A record of all released steps, with a line for consecutive equal settings.

    Args:
        writer: Name of the engine that records here; if None, a random name.

    Attributes:
        releases: The lines.  Assign a new sequence to change them.
        steps: Number of steps done.
        batch_sizes: Batch sizes of the steps that were not lost.
        lost_steps: Number of steps that were released and then lost in a crash;
            ``releases`` includes them.
        fresh_resumes: Number of resumes with other noise and batches than the
            uninterrupted run would have drawn.
        writer: Name of the engine that records here.
        released_by: {writer: number of steps it has released}.  States saved by one run
            list their common steps under the same writers, so merging two of them
            counts the common steps once.
        losses: Results of the checks of the losses' autograd graphs.
        largest_batches: Number of batches that have the largest size.
        outside_writes: Number of times that parameters were written between steps.
        public_passes: Number of times that rows were declared public.
        shares_seed: If True, another run of the process drew noise from the seed.
    """

    def __init__(self, writer: str | None = None) -> None:
        self.writer = writer or uuid.uuid4().hex
        self.released_by: dict[str, int] = {}
        self.releases: Sequence[Release] = []
        self.batch_sizes = BatchSizes()
        self.lost_steps = 0
        self.fresh_resumes = 0
        self.losses = LossRecord()
        self.largest_batches = 0
        self.outside_writes = self.public_passes = 0
        self.shares_seed = False

    @property
    def releases(self) -> Sequence[Release]:
        return (*self._lines, *self._last)

    @releases.setter
    def releases(self, lines: Sequence[Release]) -> None:
        self._lines, self._last = list(lines[:-1]), list(lines[-1:])
        # Cached, because a scheduled run has a line for every step.
        self._before_last = sum(release.steps for release in self._lines)

    @property
    def steps(self) -> int:
        return self._before_last + (self._last[0].steps if self._last else 0)

    def record(self, release: Release, batch_size: int) -> None:
        """Records a step and the size of its batch."""
        self._add(release)
        self._credit(self.writer, release.steps)
        largest = self.batch_sizes.largest
        self.batch_sizes = self.batch_sizes.added(batch_size)
        if batch_size == largest:
            self.largest_batches += 1
        elif batch_size == self.batch_sizes.largest:
            self.largest_batches = 1

    def record_lost(self, release: Release) -> None:
        """Records steps that were released and then lost in a crash."""
        self._add(release)
        self.lost_steps += release.steps

    def missing_steps(self, released_by: Mapping[str, int], unit: int = 1) -> int:
        """Returns the number of steps in another ledger that are not in this ledger.

        Args:
            released_by: {writer: number of steps} of the other ledger.
            unit: The steps of each writer are rounded up to a multiple of this number.
        """
        counted = self.released_by
        missing = [max(0, n - counted.get(w, 0)) for w, n in released_by.items()]
        return sum(-(-steps // unit) * unit for steps in missing)

    def merge(self, released_by: Mapping[str, int], lost: int) -> None:
        """Adds the step counts of another ledger.

        Args:
            released_by: {writer: number of steps} of the other ledger.
            lost: Number of lost steps.  Steps beyond those missing here are credited to
                this ledger's writer.
        """
        unnamed = lost - self.missing_steps(released_by)
        for writer, steps in released_by.items():
            self.released_by[writer] = max(steps, self.released_by.get(writer, 0))
        if unnamed > 0:
            self._credit(self.writer, unnamed)

    def _credit(self, writer: str, steps: int) -> None:
        self.released_by[writer] = self.released_by.get(writer, 0) + steps

    def _add(self, release: Release) -> None:
        if self._last and self._last[0].same_settings(release):
            self._last[0] += release
        else:
            self._lines += self._last
            self._before_last += sum(line.steps for line in self._last)
            self._last = [release]

    def lines(self) -> list[dict[str, Any]]:
        """Returns the lines as JSON values, without count noise multipliers of 0."""
        lines = [asdict(release) for release in self.releases]
        for line in lines:
            if not line["count_noise_multiplier"]:
                del line["count_noise_multiplier"]
        return lines

    def as_data(self) -> dict[str, Any]:
        """Returns the ledger as JSON values."""
        return {
            "releases": self.lines(),
            "batch_sizes": asdict(self.batch_sizes),
            "lost_steps": self.lost_steps,
            "fresh_resumes": self.fresh_resumes,
            "released_by": dict(self.released_by),
            "losses": self.losses.as_data(),
            "largest_batches": self.largest_batches,
            "outside_writes": self.outside_writes,
            "public_passes": self.public_passes,
            "shares_seed": self.shares_seed,
        }

    @classmethod
    def from_data(cls, data: dict[str, Any], writer: str | None = None) -> Ledger:
        """Returns the ledger of a result of ``as_data``, with the given writer."""
        ledger = cls(writer)
        lines: Sequence[dict[str, Any]] = data["releases"]
        ledger.releases = [Release(**line) for line in lines]
        ledger.batch_sizes = BatchSizes(**data["batch_sizes"])
        ledger.lost_steps = data["lost_steps"]
        ledger.fresh_resumes = data["fresh_resumes"]
        ledger.released_by = dict(data["released_by"])
        ledger.losses = LossRecord.from_data(data["losses"])
        ledger.largest_batches = data.get("largest_batches", 0)
        ledger.outside_writes = data.get("outside_writes", 0)
        ledger.public_passes = data.get("public_passes", 0)
        ledger.shares_seed = data.get("shares_seed", False)
        return ledger

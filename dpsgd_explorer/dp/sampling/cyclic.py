"""Cyclic Poisson sampling, which correlated noise needs: groups of records in turn.

Each record belongs to one of b groups.  Its group is the draw of its own index, whose
law does not depend on the other records: removing a record moves nobody.  The groups
may be known, since they hide nothing in the proof.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from dpsgd_explorer.accounting import Plan
from dpsgd_explorer.accounting.core.phase import phase_with
from dpsgd_explorer.dp.sampling.sampler import Generator, PoissonSampler


class _Mark(NamedTuple):
    """A point between two draws.

    Attributes:
        generator: State of the generator.
        drawn: Number of batches drawn since the start of the run.
    """

    generator: Tensor
    drawn: int


class CyclicPoissonSampler(PoissonSampler):
    """Yields batches of one group after the other; see ``PoissonSampler``.

    Each record draws one of b groups.  Batch t contains each record of group t mod b
    with probability bq, and no other.  Batches have N q records on average.

    Secret generators save no state: after a resume, the sampler leaves out the rest of
    a round of b batches that had begun, and all records draw their groups afresh.

    Args:
        plan: Its strategy of the noise has b bands.
        generator: As for ``PoissonSampler``.
        steps: As for ``PoissonSampler``.
        open_ended: As for ``PoissonSampler``.

    Attributes:
        bands: Number of groups b.

    Source: Choquette-Choo et al. (2023), arXiv:2306.08153, section 4.
    """

    is_cyclic = True

    def __init__(
        self,
        plan: Plan,
        generator: Generator,
        steps: int | None = None,
        *,
        open_ended: bool = False,
    ) -> None:
        super().__init__(plan, generator, steps, open_ended=open_ended)
        self.bands = self.batches_per_draw = plan.bands
        self._group_rate = phase_with(
            plan.sample_rate, 0.0, 1, bands=plan.bands
        ).sample_rate
        self._members: list[Tensor] = []
        self._groups_from = torch.empty(0)
        self._drawn = 0

    def groups(self) -> list[Tensor]:
        """Returns the records of each group: indices, int64 ``(n,)``, rising."""
        if not self._members:
            self._groups_from = self._generator.get_state()
            # A number below 1 times b stays below b: b (1 - 2^-53) is rounded down.
            groups = (self.uniforms(self.sample_size) * self.bands).long()
            sizes = torch.bincount(groups, minlength=self.bands).tolist()
            by_group = torch.argsort(groups, stable=True)
            self._members = list(torch.split(by_group, sizes))
        return self._members

    def draw(self) -> Tensor:
        """Returns the next batch: indices, int64 ``(n,)``, rising."""
        members = self.groups()[self._drawn % self.bands]
        self._drawn += 1
        return members[self._drawn_of(len(members), self._group_rate)]

    def _mark(self) -> _Mark:
        self.groups()  # batches after a mark must not repeat the numbers of the groups
        return _Mark(self._generator.get_state(), self._drawn)

    def _return_to(self, mark: Any) -> None:
        generator, self._drawn = mark
        self._generator.set_state(generator)

    def _saved(self, mark: Any) -> Tensor:
        state: Tensor = mark.generator
        return state

    def state(self) -> dict[str, Any]:
        """Returns a state for ``restore``; a secret generator has none to save."""
        return super().state() | {"groups": self._groups_from}

    def restore(self, state: dict[str, Any]) -> None:
        """Continues from a result of ``state``.

        With a generator that cannot repeat the groups, the next batch is the first one
        of a new round, and ``position`` is its place.
        """
        super().restore(state)
        self._members = []
        if isinstance(self._generator, torch.Generator):
            self._generator.set_state(state["groups"])
            self.groups()
            self._generator.set_state(state["generator"])
        else:
            self._begin_round(self.position)
        self._drawn = self.position

    def _begin_round(self, position: int) -> None:
        """Moves to the next start of a round, or to the end of the plan before it."""
        start = -(-position // self.bands) * self.bands
        if self.steps is not None and position <= self.steps:
            start = min(start, self.steps)
        self.position = self._drawn = start

    def skip(self, lost: int) -> None:
        """Passes over the rounds of a number of lost steps."""
        self._begin_round(self.position + lost)

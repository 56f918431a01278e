"""Samplers of correlated noise: each record keeps its group for the whole run.

Each record belongs to one of several groups, which take turns.  Its group is the draw
of its own index, whose law does not depend on the other records: removing a record
moves nobody.  The groups may be known, since they hide nothing in the proof.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from dpsgd_explorer.accounting import Plan
from dpsgd_explorer.accounting.core.phase import phase_with
from dpsgd_explorer.accounting.sampling_schemes import FIXED_SLOTS
from dpsgd_explorer.dp.sampling.sampler import Generator, PoissonSampler, Sampler


class _Mark(NamedTuple):
    """A point between two draws.

    Attributes:
        generator: State of the generator.
        drawn: Number of batches drawn since the start of the run.
    """

    generator: Tensor
    drawn: int


class GroupSampler(Sampler):
    """Yields batches of one group after the other.

    Secret generators save no state: after a resume, the sampler leaves out the rest of
    a round of batches that had begun, and all records draw their groups afresh.

    Args:
        plan: Number of records and of steps.
        generator: As for ``PoissonSampler``.
        steps: As for ``PoissonSampler``.
        open_ended: As for ``PoissonSampler``.
    """

    def __init__(
        self,
        plan: Plan,
        generator: Generator,
        steps: int | None = None,
        *,
        open_ended: bool = False,
    ) -> None:
        super().__init__(plan, generator, steps, open_ended=open_ended)
        self.batches_per_draw = plan.slots or plan.bands
        self._members: list[Tensor] = []
        self._groups_from = torch.empty(0)
        self._drawn = 0

    def groups(self) -> list[Tensor]:
        """Returns the records of each group: indices, int64 ``(n,)``, rising."""
        if not self._members:
            self._groups_from = self._generator.get_state()
            # A number below 1 times b stays below b: b (1 - 2^-53) is rounded down.
            count = self.batches_per_draw
            groups = (self.uniforms(self.sample_size) * count).long()
            sizes = torch.bincount(groups, minlength=count).tolist()
            by_group = torch.argsort(groups, stable=True)
            self._members = list(torch.split(by_group, sizes))
        return self._members

    def draw(self) -> Tensor:
        """Returns the next batch: indices, int64 ``(n,)``, rising."""
        members = self.groups()[self._drawn % self.batches_per_draw]
        self._drawn += 1
        return self._drawn_from(members)

    def _drawn_from(self, members: Tensor) -> Tensor:
        """Returns the records of the next batch, among those of its group."""
        return members

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
        start = -(-position // self.batches_per_draw) * self.batches_per_draw
        if self.steps is not None and position <= self.steps:
            start = min(start, self.steps)
        self.position = self._drawn = start

    def skip(self, lost: int) -> None:
        """Passes over the rounds of a number of lost steps."""
        self._begin_round(self.position + lost)


class CyclicPoissonSampler(GroupSampler, PoissonSampler):
    """Yields batches of one group after the other; see ``PoissonSampler``.

    Each record draws one of b groups.  Batch t contains each record of group t mod b
    with probability bq, and no other.  Batches have N q records on average.

    Args:
        plan: Its strategy of the noise has b bands.
        generator: As for ``PoissonSampler``.
        steps: As for ``PoissonSampler``.
        open_ended: As for ``PoissonSampler``.

    Attributes:
        bands: Number of groups b.

    Source: Choquette-Choo et al. (2023), arXiv:2306.08153, section 4.
    """

    is_correlated = True
    law, counted_in, in_order = "correlated noise", "a round", "the run"

    def __init__(
        self,
        plan: Plan,
        generator: Generator,
        steps: int | None = None,
        *,
        open_ended: bool = False,
    ) -> None:
        super().__init__(plan, generator, steps, open_ended=open_ended)
        self.bands = plan.bands
        self._group_rate = phase_with(
            plan.sample_rate, 0.0, 1, bands=plan.bands
        ).sample_rate

    def _drawn_from(self, members: Tensor) -> Tensor:
        return members[self._drawn_of(len(members), self._group_rate)]


class FixedSlotsSampler(GroupSampler):
    """Yields each record once per epoch, always in the same batch of it.

    Each record draws one of t slots, once for the whole run.  Batch j of every epoch
    contains the records of slot j.  Batch sizes are Binomial(N, 1/t), and a batch may
    be empty.  A batch is an int64 tensor ``(n,)`` of indices in rising order.

    Secret generators save no state: after a resume, the sampler leaves out the rest of
    an epoch that had begun, and all records draw their slots afresh.

    ``PrivacyEngine.fixed_slots_loader`` and ``make_private`` create a sampler with the
    loader.

    Args:
        plan: Number of records N, slots t and, unless ``steps`` is given, the number of
            steps.
        generator: As for ``PoissonSampler``.
        steps: As for ``PoissonSampler``.
        open_ended: As for ``PoissonSampler``.

    Source: arXiv:2601.22334 (DP-λCGD, which adds correlated noise to such batches).

    Example:
        >>> import torch
        >>> from dpsgd_explorer import dp
        >>> from dpsgd_explorer.accounting import Plan
        >>> plan = Plan.create(
        ...     sample_size=100,
        ...     expected_batch_size=25,
        ...     epochs=2,
        ...     noise_multiplier=1.0,
        ...     delta=1e-3,
        ...     sampling="fixed_slots",
        ... )
        >>> sampler = dp.FixedSlotsSampler(plan, torch.Generator().manual_seed(0))
        >>> first, second = list(sampler), list(sampler)  # two epochs of four batches
        >>> all(map(torch.equal, first, second))
        True
        >>> sampler
        FixedSlotsSampler(100 records, sample_rate=0.25, 8 of 8 batches drawn)
    """

    sampling = FIXED_SLOTS
    is_correlated = None
    law, counted_in, in_order = "fixed slots", "an epoch", "the run"

    @property
    def slots(self) -> int:
        """Number of batches of an epoch, t."""
        return self.batches_per_draw

    def _end_of_epoch(self) -> int:
        return self.position + self.slots - self.position % self.slots

"""Random allocation: in each epoch, each record is in exactly one batch.

The accountant counts whole epochs and the first steps of an epoch.  It assumes that the
batches of an epoch come from one draw, in their order, so a run cannot continue inside
an epoch with new draws.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from dpsgd_explorer.accounting import Plan
from dpsgd_explorer.accounting.sampling_schemes import RANDOM_ALLOCATION
from dpsgd_explorer.dp.sampling.sampler import Generator, Sampler


class _Epoch(NamedTuple):
    """The batches of an epoch.

    Attributes:
        generator: State of the generator before the epoch was drawn.
        records: Indices of all records, grouped by batch, int64 ``(N,)``.
        ends: End of each batch among them, int64 ``(t,)``.
    """

    generator: Tensor
    records: Tensor
    ends: Tensor


class _Mark(NamedTuple):
    """A point between two draws.

    Attributes:
        generator: State of the generator.
        epoch: The current epoch; None before its draw.
        slot: Slot of the next batch.
    """

    generator: Tensor
    epoch: _Epoch | None
    slot: int


class RandomAllocationSampler(Sampler):
    """Yields the batches of random allocation; each iteration is an epoch.

    In each epoch, every record draws one of t slots, afresh and independently; batch j
    of the epoch is slot j.  Each record is therefore in exactly one batch per epoch.
    Batch sizes are Binomial(N, 1/t), and a batch may be empty.  A batch is an int64
    tensor ``(n,)`` of indices in rising order.

    If you leave an iteration early, the next one completes it.  A saved state contains
    the generator's state at the start of the epoch, not the slots.  Secret generators
    (``noise="secure"``) save no state: after a resume, the sampler leaves out the
    rest of an epoch that had begun.

    ``PrivacyEngine.random_allocation_loader`` and ``make_private`` create a sampler
    with the loader.

    Args:
        plan: Number of records N, slots t and, unless ``steps`` is given, the number of
            steps.
        generator: Source of random numbers, for this sampler alone.  A
            ``torch.Generator`` repeats the batches with its seed.
        steps: Number of batches of the whole run; if None, the steps of the plan.
        open_ended: If True, iterations follow one another without end.

    Attributes:
        plan: The plan.
        sample_size: Number of records of this process; batches are drawn from them.
        slots: Number of batches of an epoch, t.
        steps: Number of batches of the whole run; None if open-ended.
        position: Number of batches yielded so far; iteration continues from here.
        running: Number of batches of the loader's current iteration; None between
            iterations.
        prefetch_epoch: Number of times that prefetching began or became void.

    Source: Feldman and Shenfeld (2025), arXiv:2502.08202.

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
        ...     sampling="random_allocation",
        ... )
        >>> sampler = dp.RandomAllocationSampler(plan, torch.Generator().manual_seed(0))
        >>> epoch = torch.cat(list(sampler))  # four batches
        >>> sorted(epoch.tolist()) == list(range(100))
        True
        >>> sampler
        RandomAllocationSampler(100 records, sample_rate=0.25, 4 of 8 batches drawn)
    """

    sampling = RANDOM_ALLOCATION
    law, counted_in, in_order = "random allocation", "an epoch", "an epoch"

    def __init__(
        self,
        plan: Plan,
        generator: Generator,
        steps: int | None = None,
        *,
        open_ended: bool = False,
    ) -> None:
        super().__init__(plan, generator, steps, open_ended=open_ended)
        assert plan.slots is not None, "an allocation has slots"
        self.slots = self.batches_per_draw = plan.slots
        self._epoch: _Epoch | None = None
        self._slot = 0

    def draw(self) -> Tensor:
        """Returns the next batch: indices, int64 ``(n,)``, rising."""
        if self._epoch is None:
            self._epoch = self._allocated()
        records, ends, slot = self._epoch.records, self._epoch.ends, self._slot
        batch = records[int(ends[slot - 1]) if slot else 0 : int(ends[slot])]
        self._slot += 1
        if self._slot == self.slots:
            self._epoch, self._slot = None, 0
        return batch

    def _allocated(self) -> _Epoch:
        """Draws a slot for each record."""
        before = self._generator.get_state()
        # A number below 1 times t stays below t: t (1 - 2^-53) is rounded down.
        slots = (self.uniforms(self.sample_size) * self.slots).long()
        ends = torch.bincount(slots, minlength=self.slots).cumsum(0)
        return _Epoch(before, torch.argsort(slots, stable=True), ends)

    def _end_of_epoch(self) -> int:
        return self.position + self.slots - self.position % self.slots

    def _mark(self) -> _Mark:
        return _Mark(self._generator.get_state(), self._epoch, self._slot)

    def _return_to(self, mark: Any) -> None:
        # The slots of the epoch are kept: a secret generator cannot repeat them.
        generator, self._epoch, self._slot = mark
        self._generator.set_state(generator)

    def _saved(self, mark: Any) -> Tensor:
        state: Tensor = (mark.epoch or mark).generator
        return state

    @property
    def _repeats(self) -> bool:
        """True if a restored generator draws the slots of its epoch again."""
        return isinstance(self._generator, torch.Generator)

    def restore(self, state: dict[str, Any]) -> None:
        """Continues from a result of ``state``.

        With a generator that cannot repeat the slots, the next batch is the first one
        of a new epoch, and ``position`` is its place.
        """
        super().restore(state)
        self._epoch, self._slot = None, self.position % self.slots
        if self._slot and not self._repeats:
            self._leave_epoch()

    def _leave_epoch(self) -> None:
        """Leaves out the rest of an epoch that has begun."""
        self.position = self._planned_end()
        if self._repeats and self._epoch is None:
            self._allocated()  # the next epoch must not repeat these slots
        self._epoch, self._slot = None, 0

    def skip(self, lost: int) -> None:
        """Passes over the epochs of a number of lost steps.

        Other processes may have used the current epoch, so its rest is left out too.
        """
        if lost and self._slot:
            self._leave_epoch()
        for _ in range(-(-lost // self.slots)):
            self._leave_epoch()

"""Samplers: the batches of a run, as indices of records.

A batch may have any size.  An empty batch is a step like any other: it releases noise,
and the accountant counts it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from dpsgd_explorer.accounting import Plan
from dpsgd_explorer.accounting.sampling_schemes import POISSON
from dpsgd_explorer.dp.noise.aes_stream import KeyStream
from dpsgd_explorer.dp.noise.seeded import RankStream
from dpsgd_explorer.errors import ConfigError, PrivacyError

#: Source of a sampler's random numbers.
Generator = torch.Generator | KeyStream | RankStream


class Sampler(ABC):
    """The position of a run among its batches; subclasses draw the batches.

    Args:
        plan: Number of records N and, unless ``steps`` is given, the number of steps.
        generator: Source of random numbers, for this sampler alone.
        steps: Number of batches of the whole run; if None, the steps of the plan.
        open_ended: If True, iterations follow one another without end.

    Attributes:
        plan: The plan.
        sample_size: Number of records of this process; batches are drawn from them.
        sample_rate: Probability of each record to be in a given batch.
        steps: Number of batches of the whole run; None if open-ended.
        position: Number of batches yielded so far; iteration continues from here.
        running: Number of batches of the loader's current iteration; None between
            iterations.
        prefetch_epoch: Number of times that prefetching began or became void.
        batches_per_draw: Number of consecutive batches that are counted together.

    Raises:
        ConfigError: the plan assumes another sampling.
    """

    sampling = POISSON
    #: If True, the plan has correlated noise; if False, it has none; if None, it may.
    is_correlated: bool | None = False
    unit = "records"
    batches_per_draw = 1
    #: Of batches that are counted together: their law, their number in words, and what
    #: needs all of its batches in order.
    law, counted_in, in_order = "", "", ""

    def __init__(
        self,
        plan: Plan,
        generator: Generator,
        steps: int | None = None,
        *,
        open_ended: bool = False,
    ) -> None:
        if plan.sampling != self.sampling:
            raise ConfigError(
                "sampling",
                f"plan.sampling must be {self.sampling!r} for a {type(self).__name__}, "
                f"got {plan.sampling!r}: the accountant would count other batches.",
            )
        is_correlated = plan.noise_correlation is not None
        if is_correlated != self.is_correlated and self.is_correlated is not None:
            raise ConfigError(
                "noise_correlation",
                f"plan.noise_correlation must be "
                f"{'a strategy' if self.is_correlated else 'None'} for a "
                f"{type(self).__name__}, got {plan.noise_correlation}: the accountant "
                "would count other batches.",
            )
        self.plan = plan
        self.sample_size = plan.sample_size
        self.sample_rate = plan.sample_rate
        self.steps: int | None = plan.steps if steps is None else steps
        if open_ended:
            self.steps = None
        self.position = 0
        self.running: int | None = None
        self.prefetch_epoch = 0
        # While prefetching, the draws are ahead of the batches yielded so far.
        self._committed: Any = None
        self._prefetched: deque[Any] = deque()
        self._generator = generator

    def __repr__(self) -> str:
        steps = "" if self.steps is None else f" of {self.steps}"
        return (
            f"{type(self).__name__}({self.sample_size} {self.unit}, "
            f"sample_rate={self.sample_rate}, {self.position}{steps} batches drawn)"
        )

    def __len__(self) -> int:
        """Returns the number of batches of the current iteration, or of the next one.

        The number is 0 after the last planned batch.
        """
        if self.running is not None:
            return self.running
        return self._planned_end() - self.position

    def __iter__(self) -> Iterator[Tensor]:
        yield from self.until(self.end_of_epoch())

    def all_epochs(self) -> Iterator[Tensor]:
        """Yields the remaining batches of the plan, over all epochs.

        Raises:
            ConfigError: the run is open-ended.
            PrivacyError: all planned batches have been drawn.
        """
        yield from self.until(self.end_of_plan())

    def until(self, end: int) -> Iterator[Tensor]:
        """Yields batches until ``position`` is ``end``."""
        while self.position < end:
            indices = self.draw()
            self.position += 1
            yield indices

    def end_of_epoch(self) -> int:
        """Returns the position at which the next iteration ends.

        Raises:
            PrivacyError: all planned batches have been drawn.
        """
        self._check_steps_left()
        return self._planned_end()

    def end_of_plan(self) -> int:
        """Returns the position after the last planned batch.

        Raises:
            ConfigError: the run is open-ended.
            PrivacyError: all planned batches have been drawn.
        """
        if self.steps is None:
            raise ConfigError(
                "steps",
                "all_epochs() needs a run with an end, got an open-ended run. Iterate "
                "over the loader, one epoch at a time, or pass epochs or steps to the "
                "engine.",
            )
        self._check_steps_left()
        return self.steps

    @abstractmethod
    def draw(self) -> Tensor:
        """Returns the next batch: indices, int64 ``(n,)``, rising."""

    @abstractmethod
    def _end_of_epoch(self) -> int:
        """Returns the position at which the epoch of the next batch ends."""

    def _planned_end(self) -> int:
        """Returns the end of the epoch, or of the plan where it comes earlier."""
        end = self._end_of_epoch()
        return end if self.steps is None else max(self.position, min(end, self.steps))

    def _check_steps_left(self) -> None:
        if self.steps is not None and self.position >= self.steps:
            raise PrivacyError(
                f"all {self.steps} planned batches have been drawn, and no epoch is "
                "left. End the loop over epochs here, or plan more epochs from the "
                "start. With noise_multiplier and without epochs and steps, a run is "
                "open-ended."
            )

    def prefetch(self, end: int) -> Iterator[Tensor]:
        """Yields the next batches before they are used; call ``rewind`` first.

        ``position`` and ``state()`` still describe the last committed batch.  Batches
        that are not committed are drawn again after ``rewind``.

        Args:
            end: Position after the last prefetched batch.
        """
        self._committed = self._mark()
        self._prefetched.clear()
        for _ in range(end - self.position):
            indices = self.draw()
            self._prefetched.append(self._mark())
            yield indices

    def commit(self, prefetch_epoch: int) -> None:
        """Counts the oldest prefetched batch as yielded.

        Args:
            prefetch_epoch: The attribute's value when this prefetching began.

        Raises:
            PrivacyError: the sampler was restored or a new iteration began since.
        """
        if prefetch_epoch != self.prefetch_epoch:
            raise PrivacyError(
                "prefetched batches are no longer valid, because a new iteration of "
                "the loader began or its state was restored. Continue with the new "
                "iteration."
            )
        self._committed = self._prefetched.popleft()
        self.position += 1

    def rewind(self) -> None:
        """Returns to the last committed batch; earlier prefetching becomes void."""
        self.prefetch_epoch += 1
        if self._committed is not None:
            self._return_to(self._committed)
            self._committed = None

    def _mark(self) -> Any:
        """Returns the point between two draws, for ``_return_to``."""
        return self._generator.get_state()

    def _return_to(self, mark: Any) -> None:
        """Continues with the draw after a mark."""
        self._generator.set_state(mark)

    def _saved(self, mark: Any) -> Tensor:
        """Returns the state of the generator that is saved for a mark."""
        state: Tensor = mark
        return state

    def uniforms(self, count: int) -> Tensor:
        """Returns the next uniform numbers in [0, 1), float64 ``(count,)``."""
        if isinstance(self._generator, torch.Generator):
            return torch.rand(count, dtype=torch.float64, generator=self._generator)
        return self._generator.uniforms(count)

    def state(self) -> dict[str, Any]:
        """Returns a state for ``restore``, which then repeats the following batches."""
        mark = self._mark() if self._committed is None else self._committed
        return {"position": self.position, "generator": self._saved(mark)}

    def restore(self, state: dict[str, Any]) -> None:
        """Continues from a result of ``state``."""
        self.rewind()
        self.position = int(state["position"])
        self._generator.set_state(state["generator"])
        if isinstance(self._generator, RankStream):
            self._generator.renew()

    def skip(self, lost: int) -> None:
        """Passes over the batches of a number of lost steps."""
        self.position += lost

    def check_order(self, step: int) -> None:
        """Checks that the batch yielded last may make a step, 0, 1, ...

        Raises:
            PrivacyError: batches that belong together must all make a step, and one
                made none.
        """
        if self.batches_per_draw > 1 and self.position != step + 1:
            raise PrivacyError(
                f"with {self.law} every batch of {self.in_order} must make a step, in "
                f"the loader's order; got batch {self.position} after {step} steps. "
                "Load the last saved state into a new engine."
            )


class PoissonSampler(Sampler):
    """Yields the record indices of each Poisson batch; each iteration is an epoch.

    Each record joins each batch independently, with probability q = B / N: N is the
    number of records and B the expected batch size.  Batches have different sizes and
    may be empty.  A batch is an int64 tensor ``(n,)`` of indices in rising order.

    Iteration e ends after ceil(e N / B) batches, counted from the start of the run, or
    earlier where the plan ends.  If you leave an iteration early, the next one
    completes it.

    The gaps between drawn records have a geometric distribution.  The batches have the
    same distribution as with one Bernoulli draw per record, in time O(n) instead of
    O(N).

    You rarely create a sampler: ``PrivacyEngine.poisson_loader`` and ``make_private``
    create it with the loader.

    Args:
        plan: Number of records N, rate q and, unless ``steps`` is given, the number of
            steps.
        generator: Source of random numbers, for this sampler alone; each draw advances
            it.  A ``torch.Generator`` repeats the batches with its seed.
        steps: Number of batches of the whole run; if None, the steps of the plan.
        open_ended: If True, iterations follow one another without end.

    Attributes:
        plan: The plan.
        sample_size: Number of records of this process; batches are drawn from them.
        steps: Number of batches of the whole run; None if open-ended.
        position: Number of batches yielded so far; iteration continues from here.
        running: Number of batches of the loader's current iteration; None between
            iterations.
        prefetch_epoch: Number of times that prefetching began or became void.

    Source: Abadi et al. (2016), arXiv:1607.00133, section 3.1 (lots).

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
        ... )
        >>> sampler = dp.PoissonSampler(plan, torch.Generator().manual_seed(0))
        >>> batches = list(sampler)  # one epoch
        >>> len(batches), batches[0].dtype
        (4, torch.int64)
        >>> sampler
        PoissonSampler(100 records, sample_rate=0.25, 4 of 8 batches drawn)
    """

    def _end_of_epoch(self) -> int:
        size, batch = self.plan.sample_size, self.plan.expected_batch_size
        # Batch p, from 0, is in the first epoch e with ceil(e N / B) > p.
        epoch = self.position * batch // size + 1
        return -(-epoch * size // batch)

    def draw(self) -> Tensor:
        """Returns a batch: indices, int64 ``(n,)``, rising, n ~ Binomial(N, q)."""
        return self._drawn_of(self.sample_size, self.sample_rate)

    def _drawn_of(self, size: int, rate: float) -> Tensor:
        """Returns the drawn numbers below ``size``, each with probability ``rate``."""
        mean = size * rate
        # With six standard deviations above the mean, one round of gaps nearly always
        # reaches beyond the last record.
        count = math.ceil(mean + 6 * math.sqrt(mean) + 6)
        last, rounds = -1, []
        while last < size:
            indices = last + self._gaps(count, size, rate).cumsum(0)
            rounds.append(indices)
            last = int(indices[-1])
        drawn = torch.cat(rounds)
        return drawn[: int(torch.searchsorted(drawn, size))]

    def _gaps(self, count: int, size: int, q: float) -> Tensor:
        """Returns geometric gaps >= 1, int64 ``(count,)``: P(gap > k) = (1 - q)^k."""
        uniform = self.uniforms(count)
        log_miss = math.log1p(-q) if q < 1 else -math.inf
        gaps = torch.log1p(-uniform).div_(log_miss).floor_().add_(1.0)
        # Limit gaps to just beyond the last record, so that their sum fits in int64.
        return gaps.clamp_(max=size + 1.0).long()

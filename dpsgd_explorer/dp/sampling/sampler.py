"""Poisson sampling: every record joins every step by its own coin.

The accountant assumes it, so the engine's loader does it.  A batch may be of any
size, also empty; an empty one is a step like any other.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map
from torch.utils.data import DataLoader, Dataset, TensorDataset, default_collate

from dpsgd_explorer.accounting import Plan
from dpsgd_explorer.dp.noise.aes_stream import KeyStream
from dpsgd_explorer.errors import ConfigError, PrivacyError

Collate = Callable[[list[Any]], Any]
Fetch = Callable[[Tensor], Any]
OnDraw = Callable[[int, int, bool], None]


class PoissonSampler:
    """Yields the indices of each step's batch, ``steps`` of them in all.

    The gaps between chosen records are geometric, which is the same law as a coin a
    record and costs O(batch) instead of O(N).

    Args:
        plan: Sample size N, rate q and, unless ``steps`` is given, the steps.
        generator: Its own; advanced by each draw.  With a KeyStream nobody can tell who
            is drawn, and a resumed run draws others.
        steps: Batches to yield in all.
        epoch: Instead of ``steps``, batches to yield at each iteration, without end; an
            iteration that was broken off is completed by the next.

    Attributes:
        position: Batches yielded so far; iteration goes on from here.
        lookers: How often looking ahead has begun, ended or become void.
    """

    def __init__(
        self,
        plan: Plan,
        generator: torch.Generator | KeyStream,
        steps: int | None = None,
        epoch: int | None = None,
    ) -> None:
        self.sample_size = plan.sample_size
        self.sample_rate = plan.sample_rate
        self.steps = plan.steps if steps is None else steps
        self._epoch = epoch
        self.position = 0
        self.lookers = 0
        self._mark: Tensor | None = None  # state behind the last batch handed out
        self._behind: deque[Tensor] = deque()  # and behind those drawn after it
        self._generator = generator

    def __len__(self) -> int:
        return self._epoch or self.steps

    def end_after(self, steps: int) -> None:
        """Yield so many batches in all."""
        self.steps, self._epoch = steps, None

    def _begin(self) -> None:
        """Let an iteration of an endless run end with its epoch."""
        if self._epoch is not None:
            self.steps = (self.position // self._epoch + 1) * self._epoch

    def __iter__(self) -> Iterator[Tensor]:
        self._begin()
        while self.position < self.steps:
            indices = self.draw()
            self.position += 1
            yield indices

    def ahead(self) -> Iterator[Tensor]:
        """Yield the batches to come, for those who fetch before they hand out.

        Call ``rewind`` before.  ``position`` and ``state()`` stay those of the last
        batch handed out; what was drawn beyond it is drawn again next time.
        """
        self._begin()
        self._mark = self._generator.get_state()
        self._behind.clear()
        for _ in range(self.steps - self.position):
            indices = self.draw()
            self._behind.append(self._generator.get_state())
            yield indices

    def hand_out(self, looker: int) -> None:
        """Count the oldest batch of those that ``ahead`` yielded.

        Args:
            looker: ``lookers`` as it was when the looking ahead had begun.

        Raises:
            PrivacyError: the sampler was restored or iterated anew since.
        """
        if looker != self.lookers:
            raise PrivacyError(
                "batches that were fetched ahead are void, for the loader was iterated "
                "anew or its state restored. Go on with the new iteration."
            )
        self._mark = self._behind.popleft()
        self.position += 1

    def rewind(self) -> None:
        """Forget what was drawn and not handed out; older lookers ahead are void."""
        self.lookers += 1
        if self._mark is not None:
            self._generator.set_state(self._mark)
            self._mark = None

    def draw(self) -> Tensor:
        """Return one batch: int64 indices [n] in rising order, n ~ Binomial(N, q)."""
        mean = self.sample_size * self.sample_rate
        at_once = math.ceil(mean + 6 * math.sqrt(mean) + 6)  # nearly always enough
        last, parts = -1, []
        while last < self.sample_size:
            indices = last + self._gaps(at_once).cumsum(0)
            parts.append(indices)
            last = int(indices[-1])
        drawn = torch.cat(parts)
        return drawn[: int(torch.searchsorted(drawn, self.sample_size))]

    def _gaps(self, count: int) -> Tensor:
        """Return geometric gaps >= 1: P(gap > k) = (1 - q)^k."""
        uniform = self._uniforms(count)
        q = self.sample_rate
        log_miss = math.log1p(-q) if q < 1 else -math.inf
        gaps = torch.log1p(-uniform).div_(log_miss).floor_().add_(1.0)
        return gaps.clamp_(max=self.sample_size + 1.0).long()

    def _uniforms(self, count: int) -> Tensor:
        if isinstance(self._generator, KeyStream):
            return self._generator.uniforms(count)
        return torch.rand(count, dtype=torch.float64, generator=self._generator)

    def state(self) -> dict[str, Any]:
        """Return what a resumed run needs to draw the same batches."""
        marked = self._mark is not None
        state = self._mark if marked else self._generator.get_state()
        return {"position": self.position, "generator": state}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        self.rewind()
        self.position = int(state["position"])
        self._generator.set_state(state["generator"])


class PoissonLoader:
    """Yields the records of each Poisson batch, ready for the model.

    Args:
        dataset: A TensorDataset or a tuple of tensors (indexed directly), or any
            dataset with a length and items.
        sampler: Which records.
        on_draw: Told, before each part of a batch is yielded, its size, how many
            samples of the batch come after it, and whether the batch begins with it.
        collate: Joins a list of items; torch's own by default.
        physical_batch_size: Samples of a part; whole batches if not given.
        num_workers: Processes that fetch ahead; 0 fetches when asked.
    """

    def __init__(
        self,
        dataset: Dataset[Any] | Sequence[Tensor],
        sampler: PoissonSampler,
        on_draw: OnDraw,
        collate: Collate | None = None,
        physical_batch_size: int | None = None,
        num_workers: int = 0,
    ) -> None:
        self._fetch, size = _fetcher(dataset, collate or default_collate)
        if size != sampler.sample_size:
            raise ConfigError(
                "sample_size",
                f"sample_size must be the data set's length, {size}; got "
                f"{sampler.sample_size}.",
            )
        self._sampler = sampler
        self._on_draw = on_draw
        self._part_size = physical_batch_size
        if not isinstance(num_workers, int) or num_workers < 0:
            raise ConfigError(
                "num_workers",
                f"num_workers must be a whole number, 0 or more; got {num_workers!r}.",
            )
        self._num_workers = num_workers

    def __len__(self) -> int:
        """Return the number of batches, however many parts they come in.

        Of the whole run, or of one iteration of an open-ended one.
        """
        return len(self._sampler)

    def __iter__(self) -> Iterator[Any]:
        if self._num_workers:
            yield from self._fetched_ahead()
            return
        for indices in self._sampler:
            for part, left, begins in self._parts(indices):
                self._on_draw(len(part), left, begins)
                yield self._fetch(part)

    def _parts(self, indices: Tensor) -> Iterator[tuple[Tensor, int, bool]]:
        """Yield the parts of a batch, what comes after each, and which is first."""
        left = len(indices)
        for part in torch.split(indices, self._part_size or max(1, left)):
            begins = left == len(indices)
            left -= len(part)
            yield part, left, begins

    def _fetched_ahead(self) -> Iterator[Any]:
        """Yield the same batches, fetched by worker processes in the meantime."""
        self._sampler.rewind()
        looker = self._sampler.lookers
        drawn: deque[tuple[int, int, bool]] = deque()

        def parts() -> Iterator[list[int]]:
            for indices in self._sampler.ahead():
                for part, left, begins in self._parts(indices):
                    drawn.append((len(part), left, begins))
                    yield part.tolist()

        workers: DataLoader[Any] = DataLoader(
            _Fetched(self._fetch, self._sampler.sample_size),
            batch_sampler=parts(),
            num_workers=self._num_workers,
            collate_fn=_as_fetched,
            generator=torch.Generator(),  # torch's own is not ours to advance
        )
        try:
            for records in workers:
                size, left, begins = drawn.popleft()
                if begins:
                    self._sampler.hand_out(looker)
                self._on_draw(size, left, begins)
                yield records
        finally:
            if looker == self._sampler.lookers:
                self._sampler.rewind()


class _Fetched(Dataset[Any]):
    """What torch's workers ask for the records at some indices, also at none."""

    def __init__(self, fetch: Fetch, size: int) -> None:
        self._fetch, self._size = fetch, size

    def __len__(self) -> int:
        return self._size

    def __getitems__(self, indices: list[int]) -> Any:
        return self._fetch(torch.tensor(indices, dtype=torch.int64))


def _as_fetched(records: Any) -> Any:
    return records


def _fetcher(
    dataset: Dataset[Any] | Sequence[Tensor], collate: Collate
) -> tuple[Fetch, int]:
    """Return how to get the records at some indices, and how many there are."""
    tensors = dataset.tensors if isinstance(dataset, TensorDataset) else dataset
    if not isinstance(tensors, list | tuple):
        return _item_fetcher(dataset, collate)
    columns = tuple(tensors)
    sizes = {len(column) for column in columns}
    if len(sizes) != 1:
        raise ConfigError(
            "dataset", f"dataset must have columns of one length, got {sorted(sizes)}."
        )
    (size,) = sizes
    return partial(_rows_of, columns), size


def _rows_of(columns: tuple[Tensor, ...], indices: Tensor) -> tuple[Tensor, ...]:
    return tuple(t.index_select(0, indices.to(t.device)) for t in columns)


def _item_fetcher(dataset: Any, collate: Collate) -> tuple[Fetch, int]:
    return partial(_items_of, dataset, collate), len(dataset)


def _items_of(dataset: Any, collate: Collate, indices: Tensor) -> Any:
    if len(indices):
        return collate([dataset[i] for i in indices.tolist()])
    return tree_map(_no_rows, collate([dataset[0]]))


def _no_rows(leaf: Any) -> Tensor:
    if not isinstance(leaf, Tensor):
        raise PrivacyError(
            f"a batch must be made of tensors, got {type(leaf).__name__}; an empty "
            "batch cannot be made of it. Give poisson_loader a collate function."
        )
    return leaf[:0]

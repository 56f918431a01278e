"""The loader of a run: fetches the records of each Poisson batch, in parts or whole."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_map
from torch.utils.data import DataLoader, Dataset, TensorDataset, default_collate

from dpsgd_explorer.dp.sampling.partition import Strided
from dpsgd_explorer.dp.sampling.sampler import PoissonSampler
from dpsgd_explorer.errors import ConfigError, PrivacyError

#: One process has all records of a batch.
WHOLE = Strided()
Collate = Callable[[list[Any]], Any]
Fetch = Callable[[Tensor], Any]
#: Called with the size of a part, the parts to come, whether a batch begins, and the
#: code of the whole batch.
OnDraw = Callable[[int, int, bool, int], None]


class _Part(NamedTuple):
    """A part of a batch.

    Attributes:
        indices: Records of the part, int64 [n].
        to_come: Parts of the batch after this one.
        begins: Whether the batch begins with this part.
        batch_code: Of the whole batch, which ranks share; 0 without other ranks.
    """

    indices: Tensor
    to_come: int
    begins: bool
    batch_code: int


class PoissonLoader:
    """Yields the records of each Poisson batch, ready for the model.

    Args:
        dataset: A TensorDataset or a tuple of tensors (indexed directly), or any data
            set with a length and items.
        sampler: Draws the batches.
        on_draw: Called before each part of a batch is yielded; see OnDraw.
        collate: Joins a list of items; torch's own by default.
        physical_batch_size: Most samples per part; whole batches if not given.
        num_workers: Processes that fetch ahead; 0 fetches when asked.
        partition: Which records of a batch this process fetches.

    Raises:
        ConfigError: the data set has another length than the sampler's, or columns of
            different lengths, or num_workers is not a whole number >= 0.
    """

    def __init__(
        self,
        dataset: Dataset[Any] | Sequence[Tensor],
        sampler: PoissonSampler,
        on_draw: OnDraw,
        collate: Collate | None = None,
        physical_batch_size: int | None = None,
        num_workers: int = 0,
        partition: Strided = WHOLE,
    ) -> None:
        self._fetch, size = _fetcher(dataset, collate or default_collate)
        if not isinstance(num_workers, int) or num_workers < 0:
            raise ConfigError(
                "num_workers",
                f"num_workers must be a whole number, 0 or more; got {num_workers!r}.",
            )
        partition.check(size, _columns(dataset), sampler.plan.sample_size)
        sampler.sample_size = size
        self._sampler = sampler
        self._on_draw = on_draw
        self._part_size = physical_batch_size
        self._num_workers = num_workers
        self._partition = partition

    def __len__(self) -> int:
        """Return the number of batches, however many parts they come in.

        Of the whole run, or of one iteration of an open-ended one.
        """
        return len(self._sampler)

    def __iter__(self) -> Iterator[Any]:
        if self._num_workers:
            yield from self._prefetched()
            return
        for indices in self._sampler:
            for part in self._parts(indices):
                self._note(part)
                yield self._fetch(part.indices)

    def _parts(self, drawn: Tensor) -> Iterator[_Part]:
        indices = self._partition.share_of(drawn)
        code = self._partition.code_of(drawn)
        # As many parts on every rank: sharded layers run on all of them or on none.
        most = self._partition.most(drawn, self._part_size is not None)
        size = self._part_size or max(1, most)
        starts = range(0, max(1, most), size)
        for to_come, start in zip(reversed(range(len(starts))), starts, strict=True):
            part = indices[start : start + size]
            yield _Part(part, to_come, start == 0, code)

    def _note(self, part: _Part) -> None:
        self._on_draw(len(part.indices), part.to_come, part.begins, part.batch_code)

    def _prefetched(self) -> Iterator[Any]:
        """Yield the same batches, fetched ahead by worker processes."""
        self._sampler.rewind()
        prefetch_epoch = self._sampler.prefetch_epoch
        requested: deque[_Part] = deque()

        def requests() -> Iterator[list[int]]:
            for indices in self._sampler.prefetch():
                for part in self._parts(indices):
                    requested.append(part)
                    yield part.indices.tolist()

        workers: DataLoader[Any] = DataLoader(
            _FetchingDataset(self._fetch, self._sampler.sample_size),
            batch_sampler=requests(),
            num_workers=self._num_workers,
            collate_fn=_identity,
            # Without it, DataLoader draws from torch's global generator.
            generator=torch.Generator(),
        )
        try:
            for records in workers:
                part = requested.popleft()
                if part.begins:
                    self._sampler.commit(prefetch_epoch)
                self._note(part)
                yield records
        finally:
            if prefetch_epoch == self._sampler.prefetch_epoch:
                self._sampler.rewind()


class _FetchingDataset(Dataset[Any]):
    """Fetches records for torch's workers by a list of indices, also an empty one."""

    def __init__(self, fetch: Fetch, size: int) -> None:
        self._fetch, self._size = fetch, size

    def __len__(self) -> int:
        return self._size

    def __getitems__(self, indices: list[int]) -> Any:
        return self._fetch(torch.tensor(indices, dtype=torch.int64))


def _identity(records: Any) -> Any:
    return records


def _fetcher(
    dataset: Dataset[Any] | Sequence[Tensor], collate: Collate
) -> tuple[Fetch, int]:
    """Return the function that fetches records by index, and the number of records."""
    columns = _columns(dataset)
    if not columns:
        items: Any = dataset
        if not len(items):
            raise ConfigError(
                "dataset",
                "dataset must have a record, or be tensors [0, ...], whose shapes tell "
                "what an empty batch is; got none.",
            )
        return partial(_items_at, items, collate), len(items)
    sizes = {len(column) for column in columns}
    if len(sizes) != 1:
        raise ConfigError(
            "dataset", f"dataset must have columns of one length, got {sorted(sizes)}."
        )
    (size,) = sizes
    return partial(_rows_at, columns), size


def _columns(dataset: Dataset[Any] | Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return the tensors of a data set that consists of tensors, else ()."""
    tensors = dataset.tensors if isinstance(dataset, TensorDataset) else dataset
    return tuple(tensors) if isinstance(tensors, list | tuple) else ()


def _rows_at(columns: tuple[Tensor, ...], indices: Tensor) -> tuple[Tensor, ...]:
    return tuple(t.index_select(0, _beside(indices, t)) for t in columns)


def _beside(indices: Tensor, values: Tensor) -> Tensor:
    """Return the indices on the device of the values, without waiting for it."""
    if values.is_cuda:
        return indices.pin_memory().to(values.device, non_blocking=True)
    return indices.to(values.device)


def _items_at(dataset: Any, collate: Collate, indices: Tensor) -> Any:
    if len(indices):
        return collate([dataset[i] for i in indices.tolist()])
    # An empty batch has the shapes of any other, so one item is collated and cut.
    return tree_map(_no_rows, collate([dataset[0]]))


def _no_rows(leaf: Any) -> Tensor:
    if not isinstance(leaf, Tensor):
        raise PrivacyError(
            f"a batch must be made of tensors, got {type(leaf).__name__}; an empty "
            "batch cannot be made of it. Give poisson_loader a collate function."
        )
    return leaf[:0]

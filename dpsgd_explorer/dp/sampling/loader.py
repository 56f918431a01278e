"""Loaders: the records of each batch that a sampler draws, whole or in parts."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, default_collate

from dpsgd_explorer.dp.sampling.partition import Strided
from dpsgd_explorer.dp.sampling.records import (
    Collate,
    Fetch,
    Records,
    columns_of,
    explained,
    fetcher,
)
from dpsgd_explorer.dp.sampling.sampler import Sampler
from dpsgd_explorer.dp.sampling.users import UserSampler, check_order
from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.validation import whole

#: Partition of a run in one process, which has all records of a batch.
WHOLE_BATCH = Strided()
#: Maximum number of worker processes: more than any machine has cores.
MAX_WORKERS = 1024
#: Function of the size of a part, the number of parts that follow, True if the batch
#: begins, the code of the whole batch, and the number of records of each user of the
#: part, None if the samples are records.
OnDraw = Callable[[int, int, bool, int, Tensor | None], None]


class _Part(NamedTuple):
    """A part of a batch.

    Attributes:
        indices: Indices of the part's records, int64 ``(n,)``.
        to_come: Number of parts of the batch after this part.
        begins: True for the first part of the batch.
        batch_code: Fingerprint of the whole batch, equal on all ranks; 0 if batches are
            not compared.
        counts: Number of records of each user of the part; None if samples are records.
    """

    indices: Tensor
    to_come: int
    begins: bool
    batch_code: int
    counts: Tensor | None = None


class Loader:
    """Yields the records of each batch of a sampler; see the subclasses."""

    batch_size: None = None

    def __init__(
        self,
        dataset: Records,
        sampler: Sampler,
        on_draw: OnDraw,
        collate: Collate | None = None,
        physical_batch_size: int | None = None,
        num_workers: int = 0,
        partition: Strided | None = None,
    ) -> None:
        self.collate_fn = collate or default_collate
        self._fetch, size = fetcher(dataset, self.collate_fn)
        partition = partition or WHOLE_BATCH
        self.num_workers = whole("num_workers", num_workers, 0, MAX_WORKERS)
        self._users = sampler.users if isinstance(sampler, UserSampler) else None
        if self._users is None:
            try:
                partition.check(size, columns_of(dataset), sampler.plan.sample_size)
            except ConfigError as error:
                raise explained(error, dataset) from None
            sampler.sample_size = size
        else:
            self._users.check_records(size)
            partition.check(size, columns_of(dataset), size)
            if collate is not None and not columns_of(dataset):
                check_order(collate, dataset)
        self.dataset, self.batch_sampler = dataset, sampler
        self._on_draw = on_draw
        self.physical_batch_size = physical_batch_size
        self._partition = partition

    def __repr__(self) -> str:
        name = type(self).__name__
        return f"{name}({self.batch_sampler!r}, num_workers={self.num_workers})"

    def __len__(self) -> int:
        """Returns the number of batches of the current iteration, or of the next one.

        A batch counts once, even if it comes in several parts.  The number is 0 after
        the last planned batch.
        """
        return len(self.batch_sampler)

    def __iter__(self) -> Iterator[Any]:
        yield from self._records(self.batch_sampler.end_of_epoch())

    def all_epochs(self) -> Iterator[Any]:
        """Yields the remaining batches of the plan, over all epochs.

        Raises:
            ConfigError: the run is open-ended.
            PrivacyError: all planned batches have been drawn.
        """
        yield from self._records(self.batch_sampler.end_of_plan())

    def _records(self, end: int) -> Iterator[Any]:
        """Yields the records of each batch until the sampler's position is ``end``."""
        sampler = self.batch_sampler
        if self._users is not None:
            self._users.check_part_size(self.physical_batch_size)
        sampler.running = end - sampler.position
        try:
            if self.num_workers:
                yield from self._prefetched(end)
                return
            for indices in sampler.until(end):
                for part in self._parts(indices):
                    self._note(part)
                    yield self._fetch(part.indices)
        finally:
            sampler.running = None

    def _parts(self, drawn: Tensor) -> Iterator[_Part]:
        if self._users is not None:
            ranks, code = self._partition.ranks, self._partition.batch_code(drawn)
            parts = self._users.parts(drawn, self.physical_batch_size, ranks)
            for i, (records, counts) in enumerate(parts):
                yield _Part(records, len(parts) - 1 - i, i == 0, code, counts)
            return
        indices = self._partition.share_of(drawn)
        code = self._partition.batch_code(drawn)
        # All ranks need an equal number of parts, because a sharded layer runs only if
        # all ranks call it.
        size = self.physical_batch_size
        share = self._partition.largest_share(drawn, size is not None)
        size = size or max(1, share)
        starts = range(0, max(1, share), size)
        for to_come, start in zip(reversed(range(len(starts))), starts, strict=True):
            part = indices[start : start + size]
            yield _Part(part, to_come, start == 0, code)

    def _note(self, part: _Part) -> None:
        units = len(part.indices if part.counts is None else part.counts)
        self._on_draw(units, part.to_come, part.begins, part.batch_code, part.counts)

    def _prefetched(self, end: int) -> Iterator[Any]:
        """Yields the records of each batch, fetched ahead by worker processes."""
        sampler = self.batch_sampler
        sampler.rewind()
        prefetch_epoch = sampler.prefetch_epoch
        requested: deque[_Part] = deque()

        def requests() -> Iterator[list[int]]:
            for indices in sampler.prefetch(end):
                for part in self._parts(indices):
                    requested.append(part)
                    yield part.indices.tolist()

        workers: DataLoader[Any] = DataLoader(
            _FetchingDataset(self._fetch),
            batch_sampler=requests(),
            num_workers=self.num_workers,
            collate_fn=_identity,
            # Without a generator, DataLoader draws from torch's global generator.
            generator=torch.Generator(),
        )
        try:
            for records in workers:
                part = requested.popleft()
                if part.begins:
                    sampler.commit(prefetch_epoch)
                self._note(part)
                yield records
        finally:
            if prefetch_epoch == sampler.prefetch_epoch:
                sampler.rewind()


class PoissonLoader(Loader):
    """Yields the records of each Poisson batch, ready for the model.

    ``PrivacyEngine.poisson_loader`` and ``make_private`` create a loader.  A batch has
    the form that a ``torch.utils.data.DataLoader`` yields, with tensors of shape
    ``(n, ...)``; n differs from batch to batch and may be 0.

    Each iteration is an epoch.  With N records and batches of expected size B,
    iteration e ends after ceil(e N / B) batches, counted from the start of the run, or
    earlier where the plan ends.  If you leave an iteration by ``break``, or save the
    run in its middle, the next iteration completes it; no planned batch is lost.

    Args:
        dataset: A TensorDataset or a tuple of tensors ``(N, ...)``, or any data set
            with a length and items by index, such as a list.
        sampler: The sampler that draws the batches.
        on_draw: Function that the loader calls before it yields a part of a batch, with
            the number of samples of the part, the number of parts that follow, True if
            the batch begins, and a code of the whole batch.
        collate: Function that joins a list of items into a batch; if None, torch's
            ``default_collate``.
        physical_batch_size: Maximum number of samples per part of a batch; if None,
            each batch is one part.
        num_workers: Number of processes that fetch records ahead; 0 fetches them in
            this process.
        partition: The records of a batch that this process fetches; if None, all.

    Attributes:
        dataset: The data set.
        batch_sampler: The sampler.
        batch_size: None, as in a DataLoader with a batch sampler: sizes differ.
        collate_fn: The function that joins a list of items.
        num_workers: Number of processes that fetch records ahead.
        physical_batch_size: Maximum number of samples per part of the next batches.

    Raises:
        ConfigError: the data set has no length or no items by index, its length is not
            the sampler's, its columns have different lengths, or ``num_workers`` is not
            a whole number >= 0.
        PrivacyError: an iteration begins after the last planned batch.

    Source: Abadi et al. (2016), arXiv:1607.00133, section 3.1 (lots).

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from dpsgd_explorer import dp
        >>> model = nn.Linear(3, 1)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> engine = dp.PrivacyEngine(
        ...     model, batch_size=25, sample_size=100, epochs=2, noise_multiplier=1.0
        ... )
        >>> engine.attach(optimizer)
        >>> loader = engine.poisson_loader((torch.randn(100, 3), torch.randn(100, 1)))
        >>> len(loader)  # batches of the epoch
        4
        >>> for x, y in loader:  # x: (n, 3), y: (n, 1)
        ...     nn.functional.mse_loss(model(x), y).backward()
        ...     optimizer.step()
        ...     optimizer.zero_grad()
        >>> loader.batch_sampler
        PoissonSampler(100 records, sample_rate=0.25, 4 of 8 batches drawn)
    """


class RandomAllocationLoader(Loader):
    """Yields the records of each batch of random allocation: each once per epoch.

    ``PrivacyEngine.random_allocation_loader`` and ``make_private`` create a loader.
    Batches have the form that ``PoissonLoader`` describes; see there for the arguments
    and attributes.

    Each iteration is an epoch of t batches.  In each epoch, every record is in exactly
    one batch, which it draws afresh.  If you leave an iteration by ``break``, or save
    the run in its middle, the next iteration completes it.

    Raises:
        ConfigError: in the cases of ``PoissonLoader``.
        PrivacyError: an iteration begins after the last planned batch.

    Source: Feldman and Shenfeld (2025), arXiv:2502.08202.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from dpsgd_explorer import dp
        >>> model = nn.Linear(3, 1)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> engine = dp.PrivacyEngine(
        ...     model,
        ...     batch_size=25,
        ...     sample_size=100,
        ...     epochs=2,
        ...     noise_multiplier=1.0,
        ...     sampling="random_allocation",
        ... )
        >>> engine.attach(optimizer)
        >>> data = torch.randn(100, 3), torch.randn(100, 1)
        >>> records = 0
        >>> for x, y in engine.random_allocation_loader(data):  # x: (n, 3), y: (n, 1)
        ...     nn.functional.mse_loss(model(x), y).backward()
        ...     optimizer.step()
        ...     optimizer.zero_grad()
        ...     records += len(x)
        >>> engine.steps_done, records
        (4, 100)
    """


class FixedSlotsLoader(Loader):
    """Yields the records of each batch of fixed slots: the same batches in each epoch.

    ``PrivacyEngine.fixed_slots_loader`` and ``make_private`` create a loader.  Batches
    have the form that ``PoissonLoader`` describes; see there for the arguments and
    attributes.

    Each iteration is an epoch of t batches.  Every record draws one of them, once for
    the whole run.  If you leave an iteration by ``break``, or save the run in its
    middle, the next iteration completes it.

    Raises:
        ConfigError: in the cases of ``PoissonLoader``.
        PrivacyError: an iteration begins after the last planned batch.

    Source: arXiv:2601.22334.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from dpsgd_explorer import dp
        >>> model = nn.Linear(3, 1)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> data = torch.randn(100, 3), torch.randn(100, 1)
        >>> run = dp.make_private(
        ...     model,
        ...     optimizer,
        ...     data,
        ...     batch_size=25,
        ...     epochs=2,
        ...     noise_multiplier=1.0,
        ...     sampling="fixed_slots",
        ... )
        >>> sizes = []
        >>> for epoch in run.epochs():
        ...     for x, y in epoch:  # x: (n, 3), y: (n, 1)
        ...         nn.functional.mse_loss(model(x), y).backward()
        ...         optimizer.step()
        ...         optimizer.zero_grad()
        ...         sizes.append(len(x))
        >>> sum(sizes[:4]), sizes[:4] == sizes[4:]
        (100, True)
    """


class _FetchingDataset(Dataset[Any]):
    """Data set for torch's workers that fetches records by a list of indices.

    The list may be empty.
    """

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch

    def __getitems__(self, indices: list[int]) -> Any:
        return self._fetch(torch.tensor(indices, dtype=torch.int64))


def _identity(records: Any) -> Any:
    return records

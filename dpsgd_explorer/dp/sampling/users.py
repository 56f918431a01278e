"""Users who own several records: Poisson sampling of users in place of records.

Each user joins each batch independently, with the sample rate.  The batch then has the
user's records, or at most G of them, which are drawn again for each batch.  The records
of a user are next to each other in the batch.

Source: McMahan, Ramage, Talwar and Zhang (2018), arXiv:1710.06963, for user-level
DP-SGD; Charles and others (2024), arXiv:2407.07737, for at most G records per user.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from dpsgd_explorer.accounting import Plan
from dpsgd_explorer.dp.distributed.agreement import fingerprint
from dpsgd_explorer.dp.distributed.ranks import ALONE, Ranks
from dpsgd_explorer.dp.noise.aes_stream import KeyStream
from dpsgd_explorer.dp.noise.seeded import RankStream
from dpsgd_explorer.dp.sampling.sampler import PoissonSampler
from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.validation import whole

#: Largest number of records of a user in a batch.
MAX_RECORDS_PER_USER = 2**53
#: Number of items with which a collate function is tested.
TEST_ITEMS = 8


class Users:
    """The owner of each record.

    >>> users = Users([7, 3, 7, 7], records_per_user=2)
    >>> users.count, users.owners.tolist()
    (2, [1, 0, 1, 1])

    Args:
        user_ids: One whole number >= 0 per record, its owner: a list, an array or a
            tensor ``(N,)``.
        records_per_user: Largest number of records of a user in a batch; None for all.

    Attributes:
        owners: Index of each record's owner, from 0, int64 ``(N,)``.
        count: Number of users.
        records_per_user: Largest number of records of a user in a batch, or None.
        code: Fingerprint of the owners.

    Raises:
        ConfigError: a record has no owner or several owners, or an argument is not a
            whole number in its domain.
    """

    def __init__(self, user_ids: Any, records_per_user: int | None = None) -> None:
        self.owners = _checked(user_ids)
        self._sizes = torch.bincount(self.owners)
        self.count = len(self._sizes)
        if records_per_user is not None:
            records_per_user = whole(
                "records_per_user", records_per_user, 1, MAX_RECORDS_PER_USER
            )
        self.records_per_user = records_per_user
        self._order = torch.argsort(self.owners, stable=True)
        self._starts = self._sizes.cumsum(0) - self._sizes
        self.code = fingerprint([self.owners])

    def __repr__(self) -> str:
        return (
            f"Users({self.count} users of {len(self.owners)} records, "
            f"records_per_user={self.records_per_user})"
        )

    @property
    def limits(self) -> Tensor:
        """Number of records of each user in a batch that the user joins, int64."""
        if self.records_per_user is None:
            return self._sizes
        return self._sizes.clamp(max=self.records_per_user)

    def records_of(self, users: Tensor, uniforms: Callable[[int], Tensor]) -> Tensor:
        """Returns the records of a batch: all of each user, or G random ones.

        Shapes: users [n], rising -> [m]; the records of a user are next to each other.

        Args:
            users: Indices of the users of the batch.
            uniforms: Returns the next uniform numbers in [0, 1), float64.
        """
        sizes = self._sizes[users]
        owner = torch.arange(len(users)).repeat_interleave(sizes)  # of each record
        starts = sizes.cumsum(0) - sizes
        position = torch.arange(len(owner)) - starts[owner]
        records = self._order[self._starts[users][owner] + position]
        if self.records_per_user is None or not len(records):
            return records
        # The records of each user in a random order, users in theirs.
        shuffled = torch.argsort(uniforms(len(records)))
        shuffled = shuffled[torch.argsort(owner[shuffled], stable=True)]
        return records[shuffled[position < self.records_per_user]]

    def counts_of(self, records: Tensor) -> Tensor:
        """Returns the number of records of each user in a batch; [m] -> [n]."""
        counts: Tensor
        _, counts = torch.unique_consecutive(self.owners[records], return_counts=True)
        return counts

    def parts(
        self, records: Tensor, size: int | None, ranks: Ranks = ALONE
    ) -> list[tuple[Tensor, Tensor]]:
        """Splits a batch between users; an empty batch is one empty part.

        With several ranks, each rank takes every W-th user.  All ranks have equally
        many parts, the last of which may be empty.

        Args:
            records: Indices of the records of a batch, [m].
            size: Largest number of records of a part; if None, the batch is one part.
            ranks: The processes that train together.

        Returns:
            For each part its records, and the number of records of each of its users.
        """
        counts = self.counts_of(records)
        of_users = torch.split(records, counts.tolist()) if len(counts) else ()
        cuts = [
            list(parts_of(counts[rank :: ranks.size], size or max(1, len(records))))
            for rank in range(ranks.size)
        ]
        users = ranks.share_of(torch.arange(len(counts)))
        chosen = [users[cut] for cut in cuts[ranks.rank]]
        chosen += [users[:0]] * (max(map(len, cuts)) - len(chosen))
        return [
            (torch.cat([records[:0], *(of_users[i] for i in part)]), counts[part])
            for part in chosen
        ]

    def check_part_size(self, size: int | None) -> None:
        """Raises ConfigError if a user's records in a batch do not fit into a part."""
        largest = int(self.limits.max())
        if size is not None and largest > size:
            raise ConfigError(
                "physical_batch_size",
                "physical_batch_size must be at least the number of records of one "
                f"user in a batch, because they are clipped together, got {size} for a "
                f"user with {largest}. Raise it, or pass a smaller records_per_user.",
            )

    def check_records(self, size: int) -> None:
        """Raises ConfigError if the data set has not one record for each owner."""
        if size != len(self.owners):
            raise ConfigError(
                "user_ids",
                f"user_ids must be one owner for each of the {size} records of the "
                f"data set, got {len(self.owners)}.",
            )


def check_order(collate: Callable[[list[Any]], Any], dataset: Any) -> None:
    """Checks that a collate function does not sort items, for example by length.

    Two items in both orders must not give the same batch.  The first items of the data
    set are tested; they show nothing if the function sorts them as equal.

    Raises:
        ConfigError: the function sorts, so rows would be clipped with other users'.
    """
    first, *others = [dataset[i] for i in range(min(TEST_ITEMS, len(dataset)))]
    for other in others:
        batches = collate([first, other]), collate([other, first])
        rows, swapped = ([t for t in tree_leaves(b) if _is_pair(t)] for b in batches)
        if rows and len(rows) == len(swapped) and all(map(torch.equal, rows, swapped)):
            raise ConfigError(
                "collate",
                "collate must leave the items in their order with user_ids, because "
                "neighboring rows are clipped as one user's, got a function that sorts "
                "them. Remove the sorting; pack_padded_sequence has "
                "enforce_sorted=False.",
            )


def _is_pair(leaf: Any) -> bool:
    """Returns True for a tensor with two different rows."""
    is_pair = isinstance(leaf, Tensor) and leaf.dim() > 0 and len(leaf) == 2
    return is_pair and not torch.equal(leaf[0], leaf[1])


def _checked(user_ids: Any) -> Tensor:
    """Returns the index of each record's owner among the sorted ids, int64.

    Raises:
        ConfigError: the ids are not one whole number >= 0 per record.
    """
    if isinstance(user_ids, Tensor):
        user_ids = user_ids.detach().cpu()
    try:
        ids = np.asarray(user_ids)
    except (TypeError, ValueError):
        raise _rejected("values of several shapes") from None
    if ids.ndim != 1:
        raise _rejected(f"a {type(user_ids).__name__} of shape {ids.shape}")
    if not len(ids):
        raise _rejected("none")
    if np.ma.is_masked(user_ids):
        raise _rejected("masked values")
    if ids.dtype.kind not in "iu":
        raise _rejected(f"values of dtype {ids.dtype}")
    if ids.min() < 0:
        raise _rejected(f"{ids.min()}, which often marks a missing owner")
    return torch.from_numpy(np.unique(ids, return_inverse=True)[1])


def _rejected(got: str) -> ConfigError:
    return ConfigError(
        "user_ids",
        f"user_ids must be one whole number >= 0 for each record, its owner, got {got}."
        " Leave out records without an owner, assign a record of several users to one "
        "of them, and number the owners, for example by "
        "numpy.unique(owners, return_inverse=True)[1].",
    )


def parts_of(counts: Tensor, size: int) -> Iterator[slice]:
    """Yields slices of users with at most ``size`` records, at least one user each."""
    start = records = 0
    for i, count in enumerate(counts.tolist()):
        if i > start and records + count > size:
            yield slice(start, i)
            start, records = i, 0
        records += count
    yield slice(start, len(counts))


class UserSampler(PoissonSampler):
    """Yields the records of each Poisson batch of users; see ``Users``.

    Args:
        plan: Its ``sample_size`` is the number of users, and its batch size counts
            users.
        generator: As for ``PoissonSampler``.
        users: The owner of each record.
        open_ended: As for ``PoissonSampler``.
    """

    unit = "users"

    def __init__(
        self,
        plan: Plan,
        generator: torch.Generator | KeyStream | RankStream,
        users: Users,
        *,
        open_ended: bool = False,
    ) -> None:
        super().__init__(plan, generator, open_ended=open_ended)
        self.users = users

    def draw(self) -> Tensor:
        """Returns a batch: indices of records, int64 ``(n,)``, grouped by user."""
        return self.users.records_of(super().draw(), self.uniforms)

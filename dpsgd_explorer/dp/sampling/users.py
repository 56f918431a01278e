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

import torch
from torch import Tensor

from dpsgd_explorer.accounting import Plan
from dpsgd_explorer.dp.distributed.agreement import fingerprint
from dpsgd_explorer.dp.noise.aes_stream import KeyStream
from dpsgd_explorer.dp.noise.seeded import RankStream
from dpsgd_explorer.dp.sampling.sampler import PoissonSampler
from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.validation import whole

#: Largest number of records of a user in a batch.
MAX_RECORDS_PER_USER = 2**53


class Users:
    """The owner of each record.

    >>> users = Users([7, 3, 7, 7], records_per_user=2)
    >>> users.count, users.owners.tolist()
    (2, [1, 0, 1, 1])

    Args:
        user_ids: One whole number per record, its owner: a list, an array or a tensor
            ``(N,)``.
        records_per_user: Largest number of records of a user in a batch; None for all.

    Attributes:
        owners: Index of each record's owner, from 0, int64 ``(N,)``.
        count: Number of users.
        records_per_user: Largest number of records of a user in a batch, or None.
        code: Fingerprint of the owners.

    Raises:
        ConfigError: a record has no owner or several owners, or an argument is no whole
            number.
    """

    def __init__(self, user_ids: Any, records_per_user: int | None = None) -> None:
        owners: Tensor
        sizes: Tensor
        _, owners, sizes = torch.unique(
            _checked(user_ids), return_inverse=True, return_counts=True
        )
        self.owners, self.count = owners, len(sizes)
        if records_per_user is not None:
            records_per_user = whole(
                "records_per_user", records_per_user, 1, MAX_RECORDS_PER_USER
            )
        self.records_per_user = records_per_user
        self._order = torch.argsort(self.owners, stable=True)
        self._sizes: Tensor = sizes
        self._starts = sizes.cumsum(0) - sizes
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


def _checked(user_ids: Any) -> Tensor:
    """Returns the ids as an int64 tensor of one dimension.

    Raises:
        ConfigError: the ids are not one whole number per record.
    """
    try:
        ids = torch.as_tensor(user_ids)
    except (TypeError, ValueError, RuntimeError):
        raise _rejected(f"a {type(user_ids).__name__} of other values") from None
    if ids.dim() != 1:
        raise _rejected(f"shape {tuple(ids.shape)}")
    if ids.is_floating_point() or ids.is_complex() or ids.dtype is torch.bool:
        raise _rejected(f"dtype {ids.dtype}")
    if not len(ids):
        raise _rejected("none")
    return ids.detach().cpu().long()


def _rejected(got: str) -> ConfigError:
    return ConfigError(
        "user_ids",
        f"user_ids must be one whole number for each record, its owner, got {got}. If "
        "a record belongs to several users, assign it to one of them, or leave it out.",
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

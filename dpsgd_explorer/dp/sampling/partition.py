"""Partitions: the records of a batch that each rank of a group processes.

| partition | data set of a rank | records of a rank in a batch |
|---|---|---|
| "strided" | all N records | every W-th record of a batch that all ranks draw |
| "local" | a part of the N records, on this rank only | a batch of the rank's records |

With both partitions, each record joins each batch independently, with sample rate q.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from dpsgd_explorer.dp.distributed.agreement import fingerprint, require_equal_data
from dpsgd_explorer.dp.distributed.ranks import ALONE, Ranks
from dpsgd_explorer.errors import ConfigError


class Strided:
    """All ranks draw equal batches of one data set; each processes every W-th record.

    Args:
        ranks: The processes that train together.

    Attributes:
        ranks: The processes.
        note: Text that the receipt adds to its description of the sampling.
    """

    note = ""

    def __init__(self, ranks: Ranks = ALONE) -> None:
        self.ranks = ranks

    def check(self, size: int, columns: Sequence[Tensor], sample_size: int) -> None:
        """Checks this rank's data set.

        Args:
            size: Number of records of this rank's data set.
            columns: Tensors of the data set; empty for a data set of items.
            sample_size: Number of records in the accountant's plan, N.

        Raises:
            ConfigError: the data set does not have N records, or it differs among
                ranks.
        """
        if size != sample_size:
            raise ConfigError(
                "sample_size",
                f"sample_size must be the data set's length, {size}, got "
                f"{sample_size}.",
            )
        require_equal_data(size, columns, self.ranks)

    def share_of(self, drawn: Tensor) -> Tensor:
        """Returns this rank's records of a drawn batch, int64 [n]."""
        return self.ranks.share_of(drawn)

    def largest_share(self, drawn: Tensor, is_split: bool) -> int:
        """Returns the largest number of records of a batch that a rank processes.

        Args:
            drawn: Records of the batch that this rank drew, int64 [n].
            is_split: True if batches are split into parts.
        """
        return -(-len(drawn) // self.ranks.size)

    def batch_code(self, drawn: Tensor) -> int:
        """Returns the fingerprint of a batch, which must be equal on all ranks.

        It is 0 where ranks are not compared.
        """
        return 0 if self.ranks.is_alone else fingerprint([drawn])


class Local(Strided):
    """Each rank draws batches from records that only this rank has."""

    note = ", each rank from its own records"

    def check(self, size: int, columns: Sequence[Tensor], sample_size: int) -> None:
        """Checks this rank's records; see ``Strided.check``.

        Raises:
            ConfigError: the ranks do not have N records in total, or shapes or dtypes
                of the records differ among ranks.
        """
        total = int(*self.ranks.total(size))
        if total != sample_size:
            raise ConfigError(
                "sample_size",
                "sample_size must be the total number of records of all ranks, "
                f"{total}, got {sample_size}; this rank has {size}.",
            )
        self.ranks.require_equal(
            {
                f"column {i} of the data set": (tuple(c.shape[1:]), str(c.dtype))
                for i, c in enumerate(columns)
            }
        )

    def share_of(self, drawn: Tensor) -> Tensor:
        """Returns the whole batch, which contains only records of this rank."""
        return drawn

    def largest_share(self, drawn: Tensor, is_split: bool) -> int:
        """Returns the size of the largest rank's batch if batches are split.

        Without a split each batch is one part on every rank, so sizes are not compared.
        """
        return self.ranks.largest(len(drawn)) if is_split else len(drawn)

    def batch_code(self, drawn: Tensor) -> int:
        """Returns 0, because the ranks draw different batches."""
        return 0


#: {name: partition}.
PARTITIONS: dict[str, type[Strided]] = {"strided": Strided, "local": Local}

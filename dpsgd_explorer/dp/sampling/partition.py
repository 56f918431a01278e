"""Which records of a batch are whose, where several processes train together.

| partition | data set of a rank | records of a rank in a batch |
|---|---|---|
| "strided" | all N records | every W-th one of the batch that all ranks have drawn |
| "local" | records that no other rank has; N in all | each of its own with rate q |

In both each record joins each batch independently, with the sample rate q.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from dpsgd_explorer.dp.distributed.agreement import fingerprint, refuse_unlike_data
from dpsgd_explorer.dp.distributed.ranks import ALONE, Ranks
from dpsgd_explorer.errors import ConfigError


class Strided:
    """All ranks draw the same batches of one data set, and share them out.

    Args:
        ranks: The processes.
    """

    note = ""

    def __init__(self, ranks: Ranks = ALONE) -> None:
        self._ranks = ranks

    def check(self, size: int, columns: Sequence[Tensor], sample_size: int) -> None:
        """Check a data set.

        Args:
            size: Its length.
            columns: Its tensors; none are for a data set of another kind.
            sample_size: N, as the accountant takes it.

        Raises:
            ConfigError: it is not N, or the ranks have unlike records.
        """
        if size != sample_size:
            raise ConfigError(
                "sample_size",
                f"sample_size must be the data set's length, {size}, got "
                f"{sample_size}.",
            )
        refuse_unlike_data(size, columns, self._ranks)

    def share_of(self, drawn: Tensor) -> Tensor:
        """Return this rank's records of a batch, int64 [n]."""
        return self._ranks.share_of(drawn)

    def most(self, drawn: Tensor, parted: bool) -> int:
        """Return the size of the largest rank's share of a batch."""
        return -(-len(drawn) // self._ranks.size)

    def code_of(self, drawn: Tensor) -> int:
        """Return what all ranks must have in common of a batch; 0 for nothing."""
        return 0 if self._ranks.is_alone else fingerprint([drawn])


class Local(Strided):
    """Each rank draws from records of its own."""

    note = ", each rank from its own records"

    def check(self, size: int, columns: Sequence[Tensor], sample_size: int) -> None:
        """Check a rank's records.

        Raises:
            ConfigError: the ranks have not N records in all, or of unlike kinds.
        """
        total = int(*self._ranks.total(size))
        if total != sample_size:
            raise ConfigError(
                "sample_size",
                "sample_size must be the total number of records of all ranks, "
                f"{total}, got {sample_size}; this rank has {size}.",
            )
        self._ranks.require_same(
            {
                f"column {i} of the data set": (tuple(c.shape[1:]), str(c.dtype))
                for i, c in enumerate(columns)
            }
        )

    def share_of(self, drawn: Tensor) -> Tensor:
        """Return the batch: it is of this rank's records alone."""
        return drawn

    def most(self, drawn: Tensor, parted: bool) -> int:
        """Return the size of the largest rank's batch, if batches come in parts."""
        return self._ranks.largest(len(drawn)) if parted else len(drawn)

    def code_of(self, drawn: Tensor) -> int:
        """Return 0: the ranks draw unlike batches."""
        return 0


#: Name -> how records are spread over ranks.
PARTITIONS: dict[str, type[Strided]] = {"strided": Strided, "local": Local}

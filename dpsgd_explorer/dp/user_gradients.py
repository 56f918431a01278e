"""The gradients of users, as means over the gradients of their records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

import torch
from torch import Tensor

from dpsgd_explorer.dp.backends import backend_of
from dpsgd_explorer.dp.backends.precision import accumulation_dtype
from dpsgd_explorer.dp.checks.loss.marks import ModulePass
from dpsgd_explorer.dp.clipping.clipped_sum import Parameters
from dpsgd_explorer.dp.engines.base import PerSampleGradients
from dpsgd_explorer.dp.engines.whole_module import MaterializedGradients
from dpsgd_explorer.dp.functional import AveragedViews
from dpsgd_explorer.dp.sampling.users import parts_of
from dpsgd_explorer.errors import PrivacyError


class UserGradients(AveragedViews):
    """The gradients of users; a user's gradient is the mean over the user's records.

    Args:
        rows: Gradients of all records; the records of a user are next to each other.
        counts: Number of records of each user, int64 [B], at least 1 each.
        parameters: {unit: {local name: parameter}}; a norm is computed per unit.

    """

    def __init__(
        self, rows: PerSampleGradients, counts: Tensor, parameters: Parameters
    ) -> None:
        super().__init__(rows, 1, parameters)
        self._counts = counts

    def __len__(self) -> int:
        return len(self._counts)

    def materialize(self) -> dict[str, Tensor]:
        means = {}
        for name, rows in self._rows.materialize().items():
            counts = self._counts.to(rows.device)
            owner = torch.arange(len(counts), device=rows.device)
            owner = owner.repeat_interleave(counts)
            # A sum of many records can overflow in float16.
            wide = rows.to(accumulation_dtype(rows.dtype))
            sums = wide.new_zeros(len(counts), *wide.shape[1:])
            sums.index_add_(0, owner, wide)
            means[name] = (sums / counts.view(-1, *[1] * (wide.dim() - 1))).to(rows)
        return means

    def take(self, index: Tensor | slice) -> Self:
        place = index.cpu() if isinstance(index, Tensor) else index
        chosen = torch.arange(len(self))[place]
        starts = self._counts.cumsum(0) - self._counts
        counts = self._counts[chosen]
        offsets = torch.arange(int(counts.sum()))
        offsets -= (counts.cumsum(0) - counts).repeat_interleave(counts)
        rows = starts[chosen].repeat_interleave(counts) + offsets
        users = type(self)(self._rows.take(rows), counts, self._parameters)
        users._means = {name: g[index] for name, g in self._means.items()}
        return users

    def _chunks(self) -> Iterator[Self]:
        """Yields chunks of users; the gradients of a chunk's records fit in memory."""
        flat = [p for unit in self._parameters.values() for p in unit.values()]
        row_bytes = sum(p.numel() * p.element_size() for p in flat)
        size = backend_of(flat[0]).chunk_bytes(flat[0].device) // max(1, row_bytes)
        parts = list(parts_of(self._counts, max(size, 1)))
        if len(parts) <= 1:
            yield self
            return
        for part in parts:
            yield self.take(part)


class UserRows:
    """Groups the gradients of records, as an engine delivers them, by user.

    Engines deliver all records of a backward together, or one record at a time; then
    the records of one user are stored until they are complete.

    Args:
        parameters: {unit: {local name: parameter}}; a norm is computed per unit.
    """

    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters
        self._pass: ModulePass | None = None
        self._rows: list[MaterializedGradients] = []
        self._sizes: Iterator[int] = iter(())
        self._size = 0

    def of_users(
        self, rows: PerSampleGradients, counts: Tensor, of_pass: ModulePass
    ) -> UserGradients | None:
        """Returns the gradients of users; None if further records of a user follow.

        Args:
            rows: Gradients of all records of the part, or of the next record.
            counts: Number of records of each user of the part, int64 [B].
            of_pass: The forward pass that the records belong to.

        Raises:
            PrivacyError: the pass did not use one whole part of the loader's batch.
        """
        total = int(counts.sum())
        if of_pass.size != total:
            raise PrivacyError(
                "each backward must use one whole part of the loader's batch, because "
                "a user's records are clipped together, got "
                f"{of_pass.size} rows for {total} records. Call the model once with "
                "all rows that the loader yields, in their order."
            )
        if len(rows) == total:
            return UserGradients(rows, counts, self._parameters)
        assert isinstance(rows, MaterializedGradients), "engines without single rows"
        if of_pass is not self._pass:
            self._pass, self._rows, self._sizes = of_pass, [], iter(counts.tolist())
        if not self._rows:
            self._size = next(self._sizes)
        self._rows.append(rows)
        if len(self._rows) < self._size:
            return None
        joined, self._rows = MaterializedGradients.joined(self._rows), []
        return UserGradients(joined, torch.tensor([self._size]), self._parameters)

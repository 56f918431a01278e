"""The gradients of users, as means over the gradients of their records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

import torch
from torch import Tensor

from dpsgd_explorer.dp.backends import backend_of
from dpsgd_explorer.dp.backends.precision import accumulation_dtype
from dpsgd_explorer.dp.clipping.clipped_sum import Parameters
from dpsgd_explorer.dp.engines.base import PerSampleGradients
from dpsgd_explorer.dp.functional import AveragedViews
from dpsgd_explorer.dp.sampling.users import parts_of
from dpsgd_explorer.errors import PrivacyError


class UserGradients(AveragedViews):
    """The gradients of users; a user's gradient is the mean over the user's records.

    Args:
        rows: Gradients of all records; the records of a user are next to each other.
        counts: Number of records of each user, int64 [B], at least 1 each.
        parameters: {unit: {local name: parameter}}; a norm is computed per unit.

    Raises:
        PrivacyError: the number of rows is not the sum of the counts.
    """

    def __init__(
        self, rows: PerSampleGradients, counts: Tensor, parameters: Parameters
    ) -> None:
        if len(rows) != int(counts.sum()):
            raise PrivacyError(
                "each backward must use one whole part of the loader's batch, because "
                "a user's records are clipped together, got "
                f"{len(rows)} rows for {int(counts.sum())} records. Call the model "
                "once with all rows that the loader yields, in their order."
            )
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

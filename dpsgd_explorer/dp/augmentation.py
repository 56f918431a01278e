"""Augmentation multiplicity: several views of each sample, averaged before clipping.

A sample's gradient is the mean over its K views, so that a record is clipped once and
its influence is bounded as before: more views cost time and no privacy.

Source: De et al. (2022), arXiv:2204.13650, section 3.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Self

import torch
from torch import Tensor

from dpsgd_explorer.dp.backends.sample_rows import add_weighted_rows
from dpsgd_explorer.dp.clipping.clipped_sum import Parameters
from dpsgd_explorer.dp.engines.base import GradientSums, PerSampleGradients, full_name
from dpsgd_explorer.dp.engines.deferred_gradients import CHUNK_BYTES
from dpsgd_explorer.dp.layers.base import gradient_squared_norms
from dpsgd_explorer.errors import PrivacyError


def views(
    batch: Tensor, multiplicity: int, augment: Callable[[Tensor], Tensor] | None = None
) -> Tensor:
    """Return each row ``multiplicity`` times, next to each other, each augmented.

    Shapes: [B, ...] -> [B K, ...].

    Args:
        batch: Inputs or targets.
        multiplicity: Views per row, K.
        augment: Called with [B K, ...]; must treat each row independently of the
            others.
    """
    rows = batch.repeat_interleave(multiplicity, dim=0)
    return rows if augment is None else augment(rows)


class AveragedViews(PerSampleGradients):
    """Samples whose gradients are means over views.

    Args:
        rows: Gradients of all B K views, with those of one sample next to each other.
        multiplicity: Views per sample, K.
        parameters: {unit: {local name: parameter}}, as norms are reported.

    Raises:
        PrivacyError: the number of rows is not a multiple of K.
    """

    def __init__(
        self, rows: PerSampleGradients, multiplicity: int, parameters: Parameters
    ) -> None:
        if len(rows) % multiplicity:
            raise PrivacyError(
                f"a batch must contain {multiplicity} views of each sample "
                f"(augmentation_multiplicity), got {len(rows)} rows. Create the views "
                "with dp.views."
            )
        self._rows, self._views, self._parameters = rows, multiplicity, parameters
        self._means: dict[str, Tensor] = {}

    def __len__(self) -> int:
        return len(self._rows) // self._views

    def squared_norms(self) -> dict[str, Tensor]:
        means = self._means = self.materialize()
        norms = {}
        for unit, parameters in self._parameters.items():
            names = [full_name(unit, local) for local in parameters]
            gradients = {name: means[name] for name in names if name in means}
            if gradients:  # the layer ran
                norms[unit] = gradient_squared_norms(gradients)
        return norms

    def add_weighted_gradients(
        self, weights: Mapping[str, Tensor], sums: GradientSums
    ) -> None:
        """Add the means over views, the same tensors that the norms were taken of."""
        means = self._means or self.materialize()
        for unit, parameters in self._parameters.items():
            for local in parameters:
                name = full_name(unit, local)
                if name in means:
                    add_weighted_rows(means[name], weights[unit], sums[unit][local])

    def materialize(self) -> dict[str, Tensor]:
        return {
            name: rows.reshape(len(self), self._views, *rows.shape[1:]).mean(1)
            for name, rows in self._rows.materialize().items()
        }

    def take(self, index: Tensor | slice) -> Self:
        samples = torch.arange(len(self))[index]
        rows = samples.unsqueeze(1) * self._views + torch.arange(self._views)
        taken = self._rows.take(rows.flatten())
        views = type(self)(taken, self._views, self._parameters)
        views._means = {name: g[index] for name, g in self._means.items()}
        return views

    def split_by_memory(self) -> tuple[Self | None, Iterator[Self]]:
        return None, self._pieces()

    def _pieces(self) -> Iterator[Self]:
        """Yield the samples in pieces, whose views' gradients fit in memory."""
        units = self._parameters.values()
        flat = [p for unit in units for p in unit.values()]
        sample_bytes = self._views * sum(p.numel() * p.element_size() for p in flat)
        size = max(1, CHUNK_BYTES // max(1, sample_bytes))
        if len(self) <= size:
            yield self
            return
        for start in range(0, len(self), size):
            yield self.take(slice(start, start + size))

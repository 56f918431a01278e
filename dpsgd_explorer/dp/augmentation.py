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

from dpsgd_explorer.dp.clipping.clipped_sum import Parameters
from dpsgd_explorer.dp.engines.base import GradientSums, PerSampleGradients, full_name
from dpsgd_explorer.dp.engines.deferred_gradients import CHUNK_BYTES
from dpsgd_explorer.dp.layers.base import add_weighted_rows, gradient_squared_norms
from dpsgd_explorer.errors import PrivacyError


def views(
    batch: Tensor, multiplicity: int, augment: Callable[[Tensor], Tensor] | None = None
) -> Tensor:
    """Return each row so many times, one after the other, each augmented on its own.

    Shapes: [B, ...] -> [B K, ...].

    Args:
        batch: Inputs or targets.
        multiplicity: K.
        augment: Applied to [B K, ...]; must treat the rows one by one.
    """
    rows = batch.repeat_interleave(multiplicity, dim=0)
    return rows if augment is None else augment(rows)


class AveragedViews(PerSampleGradients):
    """Samples whose gradients are means over views.

    Args:
        rows: The gradients of all views, [B K], those of one sample together.
        multiplicity: K.
        parameters: {unit: {local name: parameter}}, as norms are reported.

    Raises:
        PrivacyError: the rows are no whole number of samples.
    """

    def __init__(
        self, rows: PerSampleGradients, multiplicity: int, parameters: Parameters
    ) -> None:
        if len(rows) % multiplicity:
            raise PrivacyError(
                f"a batch must hold {multiplicity} views of each sample, as "
                f"augmentation_multiplicity says; got {len(rows)} rows. Make them with "
                "dp.views."
            )
        self._rows, self._views, self._parameters = rows, multiplicity, parameters
        self._means: dict[str, Tensor] = {}

    def __len__(self) -> int:
        return len(self._rows) // self._views

    def squared_norms(self) -> dict[str, Tensor]:
        found = self._means = self.materialize()
        norms = {}
        for unit, own in self._parameters.items():
            names = [full_name(unit, local) for local in own]
            gradients = {name: found[name] for name in names if name in found}
            if gradients:  # the layer ran
                norms[unit] = gradient_squared_norms(gradients)
        return norms

    def add_weighted_gradients(
        self, weights: Mapping[str, Tensor], sums: GradientSums
    ) -> None:
        """Add the means over views that the norms are of: views may cancel."""
        found = self._means or self.materialize()
        for unit, own in self._parameters.items():
            for local in own:
                name = full_name(unit, local)
                if name in found:
                    add_weighted_rows(found[name], weights[unit], sums[unit][local])

    def materialize(self) -> dict[str, Tensor]:
        return {
            name: rows.reshape(len(self), self._views, *rows.shape[1:]).mean(1)
            for name, rows in self._rows.materialize().items()
        }

    def take(self, index: Tensor | slice) -> Self:
        chosen = torch.arange(len(self))[index]
        rows = chosen.unsqueeze(1) * self._views + torch.arange(self._views)
        taken = self._rows.take(rows.flatten())
        views = type(self)(taken, self._views, self._parameters)
        views._means = {name: g[index] for name, g in self._means.items()}
        return views

    def split_by_memory(self) -> tuple[Self | None, Iterator[Self]]:
        return None, self._pieces()

    def _pieces(self) -> Iterator[Self]:
        """Yield the samples in pieces the gradients of whose views fit in memory."""
        every = [p for own in self._parameters.values() for p in own.values()]
        sample_bytes = self._views * sum(p.numel() * p.element_size() for p in every)
        size = max(1, CHUNK_BYTES // max(1, sample_bytes))
        if len(self) <= size:
            yield self
            return
        for start in range(0, len(self), size):
            yield self.take(slice(start, start + size))

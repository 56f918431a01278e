"""Per-sample gradients that are computed from layer calls when clipping asks for them.

After backward each layer call holds activations x [B, T, d] and backprops g [B, T, p].
Norms and weighted sums come from these by the call's rule; gradients [B, p, d] exist
only where a rule instantiates them, and then for a piece of the batch that fits in
``chunk_bytes`` of the backend.

Source: Bu et al. (2022), arXiv:2210.00038 (book-keeping).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from typing import ClassVar, Self

import torch
from torch import Tensor

from dpsgd_explorer.dp.backends import backend_on
from dpsgd_explorer.dp.engines.base import (
    GradientSums,
    ParameterKey,
    ParameterPart,
    PerSampleGradients,
    full_name,
)
from dpsgd_explorer.dp.engines.call_groups import (
    LayerCallGroup,
    add_weighted_of,
    squared_norms_of,
)
from dpsgd_explorer.dp.engines.device_calls import joined_on_device
from dpsgd_explorer.dp.engines.linear_calls import together

#: How much larger a piece may be that saves another one.
LARGER = 1.25


class DeferredGradients(PerSampleGradients):
    """The gradients of one pass, as its layer calls.

    Args:
        groups: The layer calls of the pass, those that share parameters together.
        size: B.
        scale: Factor from the gradients of the user's loss to those of one sample; see
            ``GradientEngine.gradient_scale``.
        device: Of the gradients.
    """

    leaves_out: ClassVar[bool] = True

    def __init__(
        self,
        groups: list[LayerCallGroup],
        size: int,
        scale: float,
        device: torch.device,
    ) -> None:
        self._groups = groups
        self._size = size
        self._scale = scale
        self._device = device

    def __len__(self) -> int:
        return self._size

    def squared_norms(self) -> dict[str, Tensor]:
        return squared_norms_of(self._groups, self._scale)

    def add_weighted_gradients(
        self, weights: Mapping[str, Tensor], sums: GradientSums
    ) -> None:
        add_weighted_of(self._groups, weights, sums, self._scale)

    def materialize(self) -> dict[str, Tensor]:
        total: dict[str, Tensor] = {}
        for group in self._groups:
            for (unit, local), gradient in group.materialize().items():
                name = full_name(unit, local)
                gradient = gradient if self._scale == 1.0 else gradient * self._scale
                total[name] = total[name] + gradient if name in total else gradient
        return total

    def take(self, index: Tensor | slice) -> Self:
        chosen = index if isinstance(index, Tensor) else range(self._size)[index]
        size = len(chosen)
        groups = [group.take(index) for group in self._groups]
        return type(self)(groups, size, self._scale, self._device)

    def split_by_memory(self) -> tuple[Self | None, Iterator[Self]]:
        """Return the small groups whole, and the large ones in pieces of the batch.

        Every piece costs one call per group, so groups that together need a quarter of
        a piece's bytes are computed for the whole batch at once.
        """
        memory = backend_on(self._device.type).chunk_bytes(self._device)
        groups = joined_on_device(together(self._groups))
        needed = {group: self._size * group.gradient_bytes() for group in groups}
        if sum(needed.values()) <= memory:
            return None, iter((self._of(groups),))
        small, bytes_left = [], memory // 4
        for group in sorted(needed, key=lambda candidate: needed[candidate]):
            bytes_left -= needed[group]
            if bytes_left < 0:
                break
            small.append(group)
        large = self._of([group for group in groups if group not in small])
        return self._of(small) if small else None, large._pieces()

    def by_parameters(self, every: Collection[ParameterKey]) -> list[ParameterPart]:
        parts: list[tuple[frozenset[ParameterKey], list[LayerCallGroup]]] = []
        for group in self._groups:
            keys, groups = group.keys(), [group]
            # Groups of one parameter: each has other rows of it, as queries and keys.
            for part in [part for part in parts if part[0] & keys]:
                parts.remove(part)
                keys, groups = keys | part[0], part[1] + groups
            parts.append((keys, groups))
        return [(keys, self._of(groups)) for keys, groups in parts]

    def _of(self, groups: list[LayerCallGroup]) -> Self:
        return type(self)(groups, self._size, self._scale, self._device)

    def _pieces(self) -> Iterator[Self]:
        """Yield pieces of about equal size, each of a piece's bytes or a little more.

        A batch that needs a little more than one piece is one: a second of few samples
        would cost as many calls.
        """
        memory = backend_on(self._device.type).chunk_bytes(self._device)
        sample_bytes = sum(group.gradient_bytes() for group in self._groups)
        count = math.ceil(self._size / max(1, memory // sample_bytes))
        fewer = math.ceil(self._size / max(1, count - 1))
        if count > 1 and fewer * sample_bytes <= LARGER * memory:
            count -= 1
        size = math.ceil(self._size / max(1, count))
        for start in range(0, self._size, max(1, size)):
            yield self.take(slice(start, start + size))

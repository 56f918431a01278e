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
    NormTerm,
    ParameterKey,
    ParameterPart,
    PerSampleGradients,
)
from dpsgd_explorer.dp.engines.call_groups import CallGradients
from dpsgd_explorer.dp.engines.joined_calls import joined_on_device, together

#: How much larger a piece may be that saves another one.
LARGER = 1.25


class DeferredGradients(PerSampleGradients):
    """The gradients of one pass, in parts that share no parameter.

    Args:
        parts: The layer calls of the pass; see ``call_groups.grouped``.
        size: B.
        scale: Factor from the gradients of the user's loss to those of one sample; see
            ``GradientEngine.gradient_scale``.
        device: Of the gradients.
    """

    leaves_out: ClassVar[bool] = True

    def __init__(
        self,
        parts: list[CallGradients],
        size: int,
        scale: float,
        device: torch.device,
    ) -> None:
        self._parts = parts
        self._size = size
        self._scale = scale
        self._device = device

    def __len__(self) -> int:
        return self._size

    def norm_terms(self) -> list[NormTerm]:
        return [term for part in self._parts for term in part.norm_terms()]

    def add_weighted(self, weights: Mapping[str, Tensor], sums: GradientSums) -> None:
        for part in self._parts:
            part.add_weighted(weights, sums)

    def materialize(self) -> dict[str, Tensor]:
        total: dict[str, Tensor] = {}
        for part in self._parts:
            for name, gradient in part.materialize().items():
                total[name] = total[name] + gradient if name in total else gradient
        return total

    def take(self, index: Tensor | slice) -> Self:
        chosen = index if isinstance(index, Tensor) else range(self._size)[index]
        parts = [part.take(index) for part in self._parts]
        return type(self)(parts, len(chosen), self._scale, self._device)

    def split(self) -> tuple[Self | None, Iterator[Self]]:
        """Return the small parts whole, and the large ones in pieces of the batch.

        Every piece costs one call per part, so parts that together need a quarter of a
        piece's bytes are computed for the whole batch at once.
        """
        memory = backend_on(self._device.type).chunk_bytes(self._device)
        parts = together(self._parts, self._scale)
        parts = joined_on_device(parts, self._scale)
        needed = {part: self._size * part.sample_bytes() for part in parts}
        if sum(needed.values()) <= memory:
            return None, iter((self._of(parts),))
        small, bytes_left = [], memory // 4
        for part in sorted(needed, key=lambda candidate: needed[candidate]):
            bytes_left -= needed[part]
            if bytes_left < 0:
                break
            small.append(part)
        large = self._of([part for part in parts if part not in small])
        return self._of(small) if small else None, large._pieces()

    def by_parameters(self, every: Collection[ParameterKey]) -> list[ParameterPart]:
        joined: list[tuple[frozenset[ParameterKey], list[CallGradients]]] = []
        for alone in (alone for part in self._parts for alone in part.alone()):
            keys, parts = alone.keys(), [alone]
            # Parts of one parameter: each has other rows of it, as queries and keys.
            for other in [other for other in joined if other[0] & keys]:
                joined.remove(other)
                keys, parts = keys | other[0], other[1] + parts
            joined.append((keys, parts))
        return [(keys, self._of(parts)) for keys, parts in joined]

    def _of(self, parts: list[CallGradients]) -> Self:
        return type(self)(parts, self._size, self._scale, self._device)

    def _pieces(self) -> Iterator[Self]:
        """Yield pieces of about equal size, each of a piece's bytes or a little more.

        A batch that needs a little more than one piece is one: a second of few samples
        would cost as many calls.
        """
        memory = backend_on(self._device.type).chunk_bytes(self._device)
        sample_bytes = sum(part.sample_bytes() for part in self._parts)
        count = math.ceil(self._size / max(1, memory // sample_bytes))
        fewer = math.ceil(self._size / max(1, count - 1))
        if count > 1 and fewer * sample_bytes <= LARGER * memory:
            count -= 1
        size = math.ceil(self._size / max(1, count))
        for start in range(0, self._size, max(1, size)):
            yield self.take(slice(start, start + size))

"""Per-sample gradients that clipping computes from layer calls, chunk by chunk.

After backward every layer call has activations x [B, T, d] and backprops g [B, T, p].
The call's rule computes norms and weighted sums from them.  Gradients [B, p, d] exist
only if a rule instantiates them, for one chunk of the batch that fits in
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
from dpsgd_explorer.dp.engines.joined_calls import joined

#: Maximum ratio of a chunk's bytes to ``chunk_bytes``, if that saves one chunk.
MAX_CHUNK_RATIO = 1.25


class DeferredGradients(PerSampleGradients):
    """The gradients of one pass, in parts that share no parameter.

    Args:
        parts: The layer calls of the pass; see ``call_groups.grouped``.
        size: B.
        scale: Factor from gradients of the user's loss to per-sample gradients; see
            ``GradientEngine.gradient_scale``.
        device: Device of the gradients.
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
        """Returns the small parts with the whole batch, and chunks of the large parts.

        Every chunk costs one call per part.  Small parts, which together need at most a
        quarter of the bytes of a chunk, are therefore computed for the whole batch.
        """
        if not any(map(CallGradients.sample_bytes, self._parts)):
            return None, iter((self,))  # Ghost norms need no memory for gradients.
        memory = backend_on(self._device.type).chunk_bytes(self._device)
        parts = joined(self._parts, self._scale)
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
        return self._of(small) if small else None, large._chunks()

    def by_parameters(self, keys: Collection[ParameterKey]) -> list[ParameterPart]:
        groups: list[tuple[frozenset[ParameterKey], list[CallGradients]]] = []
        for alone in (alone for part in self._parts for alone in part.alone()):
            group_keys, parts = alone.keys(), [alone]
            # Several parts may have different rows of one parameter, as the queries and
            # keys of attention do.
            for other in [other for other in groups if other[0] & group_keys]:
                groups.remove(other)
                group_keys, parts = group_keys | other[0], other[1] + parts
            groups.append((group_keys, parts))
        return [(group_keys, self._of(parts)) for group_keys, parts in groups]

    def _of(self, parts: list[CallGradients]) -> Self:
        return type(self)(parts, self._size, self._scale, self._device)

    def _chunks(self) -> Iterator[Self]:
        """Yields chunks of about equal size, of ``chunk_bytes`` or a little more.

        A second chunk with few samples would cost the calls of a full chunk, so chunks
        may exceed ``chunk_bytes`` by a factor MAX_CHUNK_RATIO to save one.
        """
        memory = backend_on(self._device.type).chunk_bytes(self._device)
        sample_bytes = sum(part.sample_bytes() for part in self._parts)
        count = math.ceil(self._size / max(1, memory // sample_bytes))
        fewer = math.ceil(self._size / max(1, count - 1))
        if count > 1 and fewer * sample_bytes <= MAX_CHUNK_RATIO * memory:
            count -= 1
        size = math.ceil(self._size / max(1, count))
        for start in range(0, self._size, max(1, size)):
            yield self.take(slice(start, start + size))

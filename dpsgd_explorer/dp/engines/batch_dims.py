"""Which dimension of a layer's input counts the samples.

A sequence of T positions may come as [B, T, d], as [T, B, d], or as one [T, d] for all
samples, and nothing in a single shape tells them apart when T = B.  So the shapes of
two passes of different size are compared before training; what changes with the batch
counts the samples.
"""

from __future__ import annotations

from dpsgd_explorer.dp.layers.base import BadInputError

Shape = tuple[int, ...]


class BatchDims:
    """Remembers {call: {batch size: shape}} while ``learning``, and tells by it."""

    def __init__(self) -> None:
        self.learning = False
        self._seen: dict[str, dict[int, Shape]] = {}

    def forget(self) -> None:
        """Start anew."""
        self._seen = {}

    def batch_dim(
        self,
        call: str,
        shape: Shape,
        size: int,
        dims: int,
        *,
        may_share: bool,
        likely: int = 0,
    ) -> int | None:
        """Return the dimension of the samples; None if all share one input.

        Args:
            call: Which call this is, the same in every pass: "layer#number.input".
            shape: Of its input.
            size: B.
            dims: The samples are in one of so many leading dimensions.
            may_share: Whether they may be in none.
            likely: Where they are if that cannot be told.

        Raises:
            BadInputError: it is none of these.
        """
        learnt = self._seen.setdefault(call, {}) if self.learning else {}
        learnt[size] = shape
        seen = learnt if self.learning else self._seen_of(call) or learnt
        possible = range(min(dims, len(shape)))
        order: list[int] = [dim for dim in (likely, *possible) if dim in possible]
        for dim in order:
            if _counts(seen, dim) and shape[dim] == size:
                return dim
        if may_share and _shared(seen):
            return None
        if self.learning:
            return 0  # the next pass will tell
        raise BadInputError(
            f"must see one row for each of the {size} samples, got shape "
            f"{list(shape)}. Keep the samples in the first dimension"
        )

    def _seen_of(self, call: str) -> dict[int, Shape]:
        """Return what was seen of a call, or of the layer's last one before it.

        A layer may be called more often for longer sequences than it was before.
        """
        if call not in self._seen:
            layer, _, rest = call.rpartition("#")
            number, _, label = rest.partition(".")
            earlier = (f"{layer}#{k}.{label}" for k in range(int(number) - 1, 0, -1))
            known = next((each for each in earlier if each in self._seen), None)
            self._seen[call] = {} if known is None else self._seen[known]
        return self._seen[call]


def _counts(seen: dict[int, Shape], dim: int) -> bool:
    """Whether this dimension was the batch size in all passes seen."""
    return all(len(shape) > dim and shape[dim] == size for size, shape in seen.items())


def _shared(seen: dict[int, Shape]) -> bool:
    """Whether the shape did not move with the batch size, or is a row for all."""
    shapes = set(seen.values())
    return len(shapes) == 1 and (len(seen) > 1 or next(iter(shapes))[:1] == (1,))

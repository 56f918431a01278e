"""Finds the dimension of a layer's input that counts the samples.

A sequence of T positions may come as [B, T, d], as [T, B, d], or as one [T, d] for all
samples, and a single shape does not tell them apart when T = B.  So the safety check
runs two passes of different batch sizes before training, and the shapes are compared:
the dimension that follows the batch size is the batch dimension.

Worked: with B = 3 a layer sees [3, 3, 8], with B = 2 it sees [3, 2, 8].  Dimension 0
was 3 both times; dimension 1 was 3 and 2, the batch sizes: it counts the samples.
"""

from __future__ import annotations

from dpsgd_explorer.dp.layers.base import BadInputError

Shape = tuple[int, ...]

#: Most answers that are stored; sequences have many lengths.
MOST_FOUND = 10_000


class BatchDims:
    """Stores {call: {batch size: shape}} while ``learning``, and decides by it.

    Attributes:
        learning: Whether passes are run to compare their shapes, not to train.
    """

    def __init__(self) -> None:
        self.learning = False
        self._seen: dict[str, dict[int, Shape]] = {}
        # What follows from the shapes learnt is found once per call and shape.
        self._found: dict[tuple[object, ...], int | None] = {}

    def forget(self) -> None:
        """Discard all shapes."""
        self._seen = {}
        self._found = {}

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
        """Return the batch dimension of one call's input; None if all samples share it.

        Args:
            call: Name of the call and input, equal in every pass: "layer#number.input".
            shape: Shape of the input.
            size: B.
            dims: Number of leading dimensions that may be the batch dimension.
            may_share: Whether the input may have no batch dimension.
            likely: The dimension to prefer where several fit.

        Raises:
            BadInputError: no dimension fits.
        """
        question = call, shape, size, dims, may_share, likely
        if self.learning:
            self._found = {}
        elif question in self._found:
            return self._found[question]
        found = self._decided(*question)
        if not self.learning:
            if len(self._found) == MOST_FOUND:
                self._found = {}
            self._found[question] = found
        return found

    def _decided(
        self,
        call: str,
        shape: Shape,
        size: int,
        dims: int,
        may_share: bool,
        likely: int,
    ) -> int | None:
        # Outside learning a shape is judged by those learnt, and is not added to them.
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
            return 0  # undecided until the pass of the other size
        raise BadInputError(
            f"must see one row for each of the {size} samples, got shape "
            f"{list(shape)}. Keep the samples in the first dimension"
        )

    def _seen_of(self, call: str) -> dict[int, Shape]:
        """Return the shapes learnt of a call, or of the layer's last call before it.

        A cell that is called once per step runs more often on longer sequences than
        the safety check showed; its later calls take after the earlier ones.
        """
        if call not in self._seen:
            layer, _, rest = call.rpartition("#")
            number, _, label = rest.partition(".")
            earlier = (f"{layer}#{k}.{label}" for k in range(int(number) - 1, 0, -1))
            known = next((name for name in earlier if name in self._seen), None)
            self._seen[call] = {} if known is None else self._seen[known]
        return self._seen[call]


def _counts(seen: dict[int, Shape], dim: int) -> bool:
    """Whether this dimension had the batch size in all passes."""
    return all(len(shape) > dim and shape[dim] == size for size, shape in seen.items())


def _shared(seen: dict[int, Shape]) -> bool:
    """Whether the shape is the same for all batch sizes, or is one row for all."""
    shapes = set(seen.values())
    return len(shapes) == 1 and (len(seen) > 1 or next(iter(shapes))[:1] == (1,))

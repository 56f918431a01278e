"""Finds the dimension of a layer's input that counts the samples.

A sequence of T positions may come as [B, T, d], as [T, B, d], or as one [T, d] for all
samples.  If T = B, a single shape does not distinguish these layouts.  So the safety
check runs two passes with different batch sizes before training and compares the
shapes: the dimension that changes with the batch size is the batch dimension.

Worked: with B = 3 a layer sees [3, 3, 8], with B = 2 it sees [3, 2, 8].  Dimension 0
was 3 both times; dimension 1 was 3 and 2, the batch sizes: it counts the samples.

Rows of each sample may also be folded into the first dimension: windows of an image, or
the tokens of a sequence.  With B = 3 a layer sees [12, 8], with B = 2 it sees [8, 8]:
each sample has 4 rows.
"""

from __future__ import annotations

from dpsgd_explorer.dp.layers.base import BadInputError

Shape = tuple[int, ...]

#: Maximum number of cached results; sequences of many lengths have many shapes.
MAX_CACHED_DIMS = 10_000


class BatchDims:
    """Finds batch dimensions from the shapes that it stored while ``learning``.

    Attributes:
        learning: If True, passes run to compare their shapes, and not to train.
    """

    def __init__(self) -> None:
        self.learning = False
        # {call: {batch size: shape}}
        self._seen: dict[str, dict[int, Shape]] = {}
        # Results by the arguments of ``batch_dim``; learning a shape discards them.
        self._cached: dict[tuple[object, ...], int | None] = {}

    def forget(self) -> None:
        """Discards all shapes."""
        self._seen = {}
        self._cached = {}

    def is_known(self, call: str, shape: Shape, size: int) -> bool:
        """Stores a shape while learning; returns True if two sizes are stored."""
        if not self.learning:
            return True
        learnt = self._seen.setdefault(call, {})
        learnt[size] = shape
        return len(learnt) > 1

    def batch_dim(
        self,
        call: str,
        shape: Shape,
        size: int,
        dims: int,
        *,
        may_share: bool,
        likely: int = 0,
        folds: bool = False,
    ) -> int | None:
        """Returns the batch dimension of a call's input; None if all samples share it.

        Args:
            call: Name of the call and input, equal in every pass: "layer#number.input".
            shape: Shape of the input.
            size: B.
            dims: Number of leading dimensions that may be the batch dimension.
            may_share: If True, the input may have no batch dimension.
            likely: The dimension to prefer if several fit.
            folds: If True, the first dimension may count several rows of each sample,
                as many in every pass: windows of an image, or tokens.

        Raises:
            BadInputError: no dimension fits.
        """
        arguments = call, shape, size, dims, may_share, likely, folds
        if self.learning:
            self._cached = {}
        elif arguments in self._cached:
            return self._cached[arguments]
        dim = self._computed(*arguments)
        if not self.learning:
            if len(self._cached) == MAX_CACHED_DIMS:
                self._cached = {}
            self._cached[arguments] = dim
        return dim

    def _computed(
        self,
        call: str,
        shape: Shape,
        size: int,
        dims: int,
        may_share: bool,
        likely: int,
        folds: bool,
    ) -> int | None:
        # Outside learning a shape is compared with the stored shapes, and not stored.
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
        if folds and shape[0] % max(1, size) == 0 and _folds(seen):
            return 0
        if self.learning:
            return 0  # undecided until the pass of the other size
        raise BadInputError(
            f"must see one row for each of the {size} samples, got shape "
            f"{list(shape)}. Keep the samples in the first dimension"
        )

    def _seen_of(self, call: str) -> dict[int, Shape]:
        """Returns the stored shapes of a call, or of the layer's last call before it.

        A cell that is called once per time step has more calls on longer sequences than
        in the safety check; the additional calls use the shapes of earlier calls.
        """
        if call not in self._seen:
            layer, _, rest = call.rpartition("#")
            number, _, label = rest.partition(".")
            earlier = (f"{layer}#{k}.{label}" for k in range(int(number) - 1, 0, -1))
            last = next((name for name in earlier if name in self._seen), None)
            self._seen[call] = {} if last is None else self._seen[last]
        return self._seen[call]


def _counts(seen: dict[int, Shape], dim: int) -> bool:
    """Returns True if this dimension had the batch size in all passes."""
    return all(len(shape) > dim and shape[dim] == size for size, shape in seen.items())


def _folds(seen: dict[int, Shape]) -> bool:
    """Returns True if the first dimension had equally many rows for each sample."""
    counts = {shape[0] / size for size, shape in seen.items() if size and shape}
    return len(seen) > 1 and len(counts) == 1 and counts.pop() % 1 == 0


def _shared(seen: dict[int, Shape]) -> bool:
    """Returns True if the shape is equal for all batch sizes, or has a single row."""
    shapes = set(seen.values())
    return len(shapes) == 1 and (len(seen) > 1 or next(iter(shapes))[:1] == (1,))

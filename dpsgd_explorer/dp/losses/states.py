"""What is known of a tensor between a module's outputs and the loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

Shape = tuple[int, ...]


class NotPerRecordError(Exception):
    """An operation is not known to keep the records of a batch apart."""


class Records(NamedTuple):
    """A tensor of which every element depends on one record alone.

    Attributes:
        size: Records of the batch, B.
        shape: Of the tensor.
        dim: The dimension that counts records; its length is B * repeats.
        repeats: Consecutive indices along ``dim`` that belong to one record.
        shifted: How often a tensor of unknown origin was added.  That changes no
            gradient while all that follows is linear.
        class_dim: The dimension over which a softmax was taken last.
    """

    size: int
    shape: Shape
    dim: int = 0
    repeats: int = 1
    shifted: int = 0
    class_dim: int | None = None

    def unshifted(self) -> Records:
        """Return the same, to be put into a nonlinear function.

        Raises:
            NotPerRecordError: a tensor was added whose rows nobody knows.
        """
        if self.shifted:
            raise NotPerRecordError(
                "a tensor that may depend on the whole batch is added to the outputs"
            )
        return self if self.class_dim is None else self._replace(class_dim=None)

    def counts(self) -> dict[int, str]:
        """Return the numbers by which a sum of all elements becomes a mean."""
        elements = 1
        for length in self.shape:
            elements *= length
        counts = {self.size: "records", self.size * self.repeats: "rows"}
        for dim, length in enumerate(self.shape):
            if dim != self.dim and length:
                counts.setdefault(elements // length, f"elements/{dim}")
        counts.setdefault(elements, "elements")
        return counts


class Reduced(NamedTuple):
    """A sum over all records of a term for each, all with one factor.

    Attributes:
        divided: Whether the sum is divided by the number of records.
        counts: What it may be divided by to become so.
    """

    divided: bool
    counts: Mapping[int, str] = {}


State = Records | Reduced


def joined(first: Reduced, second: Reduced) -> Reduced:
    """Return the state of a sum of two.

    Raises:
        NotPerRecordError: one is a mean over records and the other a sum.
    """
    if first.divided != second.divided:
        raise NotPerRecordError("a mean over samples is added to a sum over samples")
    shared = {n: first.counts[n] for n in first.counts if n in second.counts}
    return Reduced(first.divided, shared)

"""States of the tensors between a module's outputs and the loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

Shape = tuple[int, ...]


class NotPerRecordError(Exception):
    """An operation is not known to keep the records of a batch apart."""


class UnknownOperationError(NotPerRecordError):
    """An operation cannot be judged by the graph; a measurement may show what it does.

    Other reasons are evidence that samples are mixed, or not reduced as declared.
    """


class Records(NamedTuple):
    """A tensor of which every element depends on one record alone.

    Attributes:
        size: Records of the batch, B.
        shape: Shape of the tensor.
        dim: The dimension that counts records; its length is B * repeats.
        repeats: Consecutive indices along ``dim`` that belong to one record.
        shifted: Number of tensors of unknown origin that were added.  They change no
            gradient while all later operations are linear.
        class_dim: The dimension of the last softmax; None after another operation.
        affine: If True, only linear operations came after the module.
        targeted: If True, a tensor of unknown origin was used as the target.  A second
            one could be a statistic of the batch.
    """

    size: int
    shape: Shape
    dim: int = 0
    repeats: int = 1
    shifted: int = 0
    class_dim: int | None = None
    affine: bool = False
    targeted: bool = False

    def unshifted(self) -> Records:
        """Return the state as the input of a nonlinear function.

        Raises:
            NotPerRecordError: a tensor of unknown origin was added.
        """
        if self.shifted:
            raise UnknownOperationError(
                "a tensor that may depend on the whole batch is added to the outputs"
            )
        return self._replace(class_dim=None, affine=False)

    def with_target(self) -> Records:
        """Return the state after a tensor of unknown origin was used as the target.

        Raises:
            NotPerRecordError: another one was used before.
        """
        if self.targeted:
            raise UnknownOperationError(
                "a second tensor that may depend on the whole batch is used"
            )
        return self._replace(targeted=True)

    def counts(self) -> dict[int, str]:
        """Return {divisor: name} of the divisors that make a mean of a sum."""
        # Where two divisors coincide, as for B = C classes, the first name is taken.
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
    """A sum over all records of one term each, with one common factor.

    Attributes:
        divided: Whether the sum is divided by the number of records.
        counts: {divisor that makes it so: its name}.
    """

    divided: bool
    counts: Mapping[int, str] = {}


State = Records | Reduced


def joined(first: Reduced, second: Reduced) -> Reduced:
    """Return the state of the sum of two such sums.

    Raises:
        NotPerRecordError: one is a mean over records and the other a sum.
    """
    if first.divided != second.divided:
        raise NotPerRecordError("a mean over samples is added to a sum over samples")
    shared = {n: first.counts[n] for n in first.counts if n in second.counts}
    return Reduced(first.divided, shared)

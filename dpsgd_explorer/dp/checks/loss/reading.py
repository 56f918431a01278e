"""The reading of one loss's graph, and the record of all losses of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dpsgd_explorer.dp.backends.asynchronous import LateFlag
from dpsgd_explorer.errors import MixedLossError

#: Maximum number of different loss graphs in one run.  A run with more graphs gets no
#: epsilon.  The limit bounds the size of saved states.
MAX_GRAPHS = 100

#: Advice for a loss that cannot be read.
REMEDY = (
    "Reduce the losses with dpsgd_explorer.dp.per_sample_mean, pass "
    "example_inputs and loss_fn to the engine so that it tests the loss, or vouch for "
    "the loss with assume_per_sample_loss=True."
)

Number = float | tuple[float, ...]


class NotPerSampleError(Exception):
    """An operation may mix the samples of a batch."""


class UnknownOperationError(NotPerSampleError):
    """The graph does not show whether an operation mixes samples.

    A measurement may show it.  Any other NotPerSampleError is evidence that the loss
    mixes samples, or has another reduction than ``loss_reduction``.
    """


@dataclass(frozen=True)
class LateCondition:
    """A condition on a loss that is evaluated later, so that the device can run ahead.

    Attributes:
        holds: If True, the condition holds; reading it waits for the device.
        failed: Returns why the loss is rejected, or raises an error.
    """

    holds: LateFlag
    failed: Callable[[], str]

    def rejection(self) -> str:
        """Returns why the loss is rejected, or "", after waiting for the device.

        Raises:
            MixedLossError: a sample's weight depends on its batch.
        """
        return "" if self.holds else self.failed()


@dataclass(frozen=True)
class LossReading:
    """The graph of one loss.

    Attributes:
        rejection: Why the loss is not known to be a mean or sum of one term per
            sample; "" if it is, with public constants.
        graph: The operations of the loss, in one string.
        numbers: Constants in the loss, in order.  They are public if they are equal in
            all batches.
        ranges: Bounds (lower, upper) of constants that were computed from rounded
            values, in order.  Such a constant is public if the ranges of all batches
            have a common value.
        weights: If True, a constant may be a statistic of the batch, such as a count
            that divides the loss.  All constants must then be equal in batches of two
            sizes.
        late: Conditions on the loss that a device is still computing.
        form: Operations of a loss that is rejected for an unknown operation; "" if
            there is evidence that the loss mixes samples.
    """

    rejection: str
    graph: str = ""
    numbers: tuple[Number, ...] = ()
    ranges: tuple[tuple[float, float], ...] = ()
    weights: bool = False
    late: tuple[LateCondition, ...] = ()
    form: str = ""

    def settle(self) -> None:
        """Waits for the device.

        Raises:
            MixedLossError: a sample's weight depends on its batch.
        """
        for condition in self.late:
            condition.rejection()


#: The reading of a loss whose backward began without the engine.
UNREAD = LossReading("the engine did not see its graph")


class LossRecord:
    """The evidence that all losses of a run are means or sums of per-sample terms.

    Attributes:
        measured_forms: Forms of the loss that was measured at ``attach``.
        noted_rejection: Why a loss was rejected, or "", by the conditions that a device
            has computed so far.
    """

    def __init__(self) -> None:
        self.measured_forms: frozenset[str] = frozenset()
        self._is_measured = False
        self.noted_rejection = ""
        self._numbers: dict[str, list[Number]] = {}
        self._ranges: dict[str, list[tuple[float, float]]] = {}
        self._sizes: dict[str, list[int]] = {}
        self._late: list[LateCondition] = []

    def note(self, reading: LossReading, size: int) -> None:
        """Adds the reading of one backward, of a batch or of a part of a batch.

        Args:
            reading: The reading of the backward's loss.
            size: Number of samples of the backward; without samples there is no loss.

        Raises:
            MixedLossError: a sample's weight in an earlier loss depended on its batch.
        """
        self._settle()
        if not size or self.noted_rejection:
            return
        self._late += reading.late
        if reading.form and reading.form in self.measured_forms:
            self._is_measured = True
            return
        self.noted_rejection = reading.rejection
        if reading.rejection or not (reading.numbers or reading.ranges):
            return
        numbers = list(reading.numbers)
        old_numbers = self._numbers.setdefault(reading.graph, numbers)
        if old_numbers != numbers or not self._ranges_meet(reading):
            self.noted_rejection = (
                "it contains a number that changes from batch to batch"
            )
        elif len(self._numbers) > MAX_GRAPHS:
            self.noted_rejection = "its graph changes from batch to batch"
        elif reading.weights:
            sizes = self._sizes.setdefault(reading.graph, [])
            if size not in sizes and len(sizes) < 2:
                sizes.append(size)

    def _ranges_meet(self, reading: LossReading) -> bool:
        """Returns True if the ranges of all readings so far have a common value."""
        before = self._ranges.get(reading.graph, list(reading.ranges))
        common = [
            (max(least, other_least), min(largest, other_largest))
            for (least, largest), (other_least, other_largest) in zip(
                before, reading.ranges, strict=True
            )
        ]
        self._ranges[reading.graph] = common
        return all(least <= largest for least, largest in common)

    @property
    def is_rejected(self) -> bool:
        """If True, a loss was rejected, and no later batch can change that."""
        self._settle()
        return bool(self.noted_rejection)

    def reject(self, reason: str) -> None:
        """Records that the losses are rejected; an earlier reason remains."""
        self.noted_rejection = self.noted_rejection or reason

    @property
    def rejection(self) -> str:
        """The reason why the losses are not known to be per-sample, or ""."""
        self._settle()
        has_one_size = any(len(sizes) < 2 for sizes in self._sizes.values())
        if has_one_size and not self.noted_rejection:
            return (
                "it contains a number, such as a factor, and no two batches of "
                "different sizes have shown yet that this number does not depend on "
                "the batch"
            )
        return self.noted_rejection

    def add(self, other: LossRecord) -> None:
        """Adds the evidence of steps that this record does not contain."""
        other._settle()
        self.reject(other.noted_rejection)
        self.measured_forms |= other.measured_forms
        self._is_measured |= other._is_measured

    def _settle(self) -> None:
        """Evaluates all late conditions, which waits for the device."""
        while self._late:
            try:
                self.reject(self._late.pop(0).rejection())
            except MixedLossError as error:
                self.reject(str(error))
                raise

    def note_text(self, vouched: bool) -> str:
        """Returns the receipt's line on the losses.

        Args:
            vouched: If True, the caller vouched for losses that cannot be read.
        """
        if not self.rejection:
            if self._is_measured:
                return "measured at attach, with the same operations at every backward"
            return "checked by its graph at every backward"
        if vouched:
            return f"unchecked ({self.rejection}); the caller vouched for it"
        return f"unchecked ({self.rejection}); no epsilon"

    def as_data(self) -> dict[str, Any]:
        """Returns JSON values."""
        self._settle()
        return {
            "refusal": self.noted_rejection,
            "numbers": self._numbers,
            "sizes": self._sizes,
            "ranges": self._ranges,
            "is_measured": self._is_measured,
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> LossRecord:
        """Returns the record that ``as_data`` returned as JSON values."""
        record = cls()
        record.noted_rejection = data["refusal"]
        record._is_measured = data.get("is_measured", False)
        record._sizes = {graph: list(sizes) for graph, sizes in data["sizes"].items()}
        record._ranges = {
            graph: [(least, largest) for least, largest in ranges]
            for graph, ranges in data.get("ranges", {}).items()
        }
        record._numbers = {
            graph: [tuple(n) if isinstance(n, list) else n for n in numbers]
            for graph, numbers in data["numbers"].items()
        }
        return record

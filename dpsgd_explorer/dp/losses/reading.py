"""What a backward found out about its loss, and what a run knows of its losses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MOST_GRAPHS = 100
"""Different graphs of losses in one run; more are not compared."""

Number = float | tuple[float, ...]


@dataclass(frozen=True)
class LossReading:
    """The graph of one loss.

    Attributes:
        refusal: Why it is not known to be a mean or sum of a term for each sample;
            "" if it is, with public numbers.
        graph: Its operations, in one string.
        numbers: Constants in it, in order.  They are public if no batch changes them.
        weights: Whether any of them may have been made of the batch, as a count that
            the loss is divided by: then batches of two sizes must agree on them.
    """

    refusal: str
    graph: str = ""
    numbers: tuple[Number, ...] = ()
    weights: bool = False


UNREAD = LossReading("its graph was not seen")


class LossRecord:
    """Whether all losses of a run are known to keep the samples apart."""

    def __init__(self) -> None:
        self._refusal = ""
        self._numbers: dict[str, list[Number]] = {}
        self._sizes: dict[str, list[int]] = {}

    def note(self, reading: LossReading, size: int) -> None:
        """Take what was read at the backward of a batch, or a part of one."""
        if not size or self._refusal:
            return
        self._refusal = reading.refusal
        if reading.refusal or not reading.numbers:
            return
        known = self._numbers.setdefault(reading.graph, list(reading.numbers))
        if known != list(reading.numbers):
            self._refusal = "a number in it changes from batch to batch"
        elif len(self._numbers) > MOST_GRAPHS:
            self._refusal = "its graph is another one in each batch"
        elif reading.weights:
            sizes = self._sizes.setdefault(reading.graph, [])
            if size not in sizes and len(sizes) < 2:
                sizes.append(size)

    @property
    def refusal(self) -> str:
        """Why the losses are not known to be of that kind; "" if they are."""
        if not self._refusal and any(len(each) < 2 for each in self._sizes.values()):
            return (
                "there is a number in it, such as a factor, and no two batches of "
                "different size show that it does not depend on the batch"
            )
        return self._refusal

    def add(self, other: LossRecord) -> None:
        """Remember what was refused in steps that this record does not know of."""
        self._refusal = self._refusal or other._refusal

    def note_text(self, vouched: bool) -> str:
        """Return what a receipt says."""
        if not self.refusal:
            return "checked by its graph at every backward"
        if vouched:
            return f"unchecked ({self.refusal}); the caller vouched for it"
        return f"unchecked ({self.refusal}); no epsilon"

    def as_data(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "refusal": self._refusal,
            "numbers": self._numbers,
            "sizes": self._sizes,
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> LossRecord:
        """Read what ``as_data`` returned."""
        record = cls()
        record._refusal = data["refusal"]
        record._sizes = {graph: list(each) for graph, each in data["sizes"].items()}
        record._numbers = {
            graph: [tuple(n) if isinstance(n, list) else n for n in numbers]
            for graph, numbers in data["numbers"].items()
        }
        return record

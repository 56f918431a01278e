"""One operation in the graph of a loss, with the states of its inputs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd.graph import Node

from dpsgd_explorer.dp.checks.loss.reading import LateCondition, Number
from dpsgd_explorer.dp.checks.loss.states import (
    NotPerRecordError,
    Records,
    Reduced,
    Shape,
    State,
)

#: Powers, margins and limits that are no statistic of a batch.
USUAL = (0, 1, 2)
#: Most entries of a tensor of constants that is compared from batch to batch.
MOST_CONSTANTS = 10_000


class Notes(Protocol):
    """Collects the constants that must be the same in all batches."""

    def add_number(self, value: Number, *, weighs: bool) -> None:
        """Add a constant, and whether it may be a statistic of the batch."""

    def add_range(self, least: float, largest: float) -> None:
        """Add bounds on a constant that was computed from rounded values."""

    def is_target(self, node: Node) -> bool:
        """Whether the unknown tensor of the operation is known to be a target."""

    def add_late(self, condition: LateCondition) -> None:
        """Add a condition that a device is still computing."""

    def is_count(self, source: State, divisor: float) -> bool:
        """Whether the divisor turns a sum into a mean; if so, add its name."""

    def is_loss_scale(self, value: float) -> bool:
        """Whether the value is the factor of a GradScaler."""


@dataclass(slots=True)
class Operation:
    """A node of autograd's graph, with the states of its inputs.

    Attributes:
        node: The node.
        result: Number of the result whose state is wanted.
        sources: State of each input; None for one that needs no gradient.
        notes: Collects the constants.
    """

    node: Node
    result: int
    sources: list[State | None]
    notes: Notes

    @property
    def shape(self) -> Shape:
        """The shape of the result."""
        metadata: Any = self.node._input_metadata
        return tuple(metadata[self.result].shape)

    def saved(self, name: str) -> Any:
        """Return the value that the operation saved under this name."""
        return getattr(self.node, f"_saved_{name}")

    def dim(self, name: str, length: int) -> int:
        """Return a saved dimension, counted from the left, of ``length`` dimensions."""
        return _signed(self.saved(name)) % length

    def dims(self, name: str, length: int) -> set[int]:
        """Return saved dimensions; all of them if none is saved."""
        saved = self.saved(name)
        if isinstance(saved, int):
            saved = (saved,)
        if not saved:
            return set(range(length))
        return {_signed(dim) % length for dim in saved}

    @property
    def only(self) -> State:
        """The one input that needs a gradient."""
        if len(self.sources) == 1 and self.sources[0] is not None:
            return self.sources[0]
        present = [source for source in self.sources if source is not None]
        if len(present) != 1:
            raise NotPerRecordError(f"{self.name} has several inputs")
        return present[0]

    @property
    def records(self) -> Records:
        """The one input, before it was summed over records."""
        return only_records(self.only, self)

    @property
    def name(self) -> str:
        """The name of the operation in messages."""
        return operation_name(self.node)

    def keeps_shape(self, source: Records) -> Records:
        """Return the input's state, if the result has its shape.

        Raises:
            NotPerRecordError: the result has another shape, by broadcasting.
        """
        if self.shape != source.shape:
            raise NotPerRecordError(
                f"{self.name} broadcasts outputs of shape {list(source.shape)} to "
                f"{list(self.shape)}"
            )
        return source

    def add_numbers(self, names: Iterable[str]) -> None:
        """Add the saved parameters of these names, where the operation has them."""
        for name in names:
            value = getattr(self.node, f"_saved_{name}", None)
            if isinstance(value, int | float) and not isinstance(value, bool):
                self.notes.add_number(float(value), weighs=value not in USUAL)

    def add_factor(self, name: str) -> None:
        """Add a saved parameter, unless the operation lacks it or it is a usual one.

        States of runs that were saved before these were read then still agree.
        """
        if getattr(self.node, f"_saved_{name}", 1) not in USUAL:
            self.add_numbers((name,))

    def add_constants(self, values: Tensor) -> None:
        """Add a tensor that is the same for all records, such as class weights."""
        if values.numel() > MOST_CONSTANTS:
            raise NotPerRecordError(f"{self.name} has {values.numel()} weights")
        self.notes.add_number(tuple(values.flatten().tolist()), weighs=True)


def only_records(state: State | None, op: Operation) -> Records:
    """Return the state of a tensor with records.

    Raises:
        NotPerRecordError: the tensor was summed over them.
    """
    if not isinstance(state, Records):
        raise NotPerRecordError(f"{op.name} is applied after a sum over samples")
    return state


def only_reduced(states: Iterable[State | None]) -> list[Reduced]:
    """Return the states of sums over records.

    Raises:
        NotPerRecordError: one was not summed.
    """
    reduced = [state for state in states if isinstance(state, Reduced)]
    if len(reduced) != len(list(states)):
        raise NotPerRecordError(
            "the loss combines a sum over samples with per-sample values"
        )
    return reduced


def operation_name(node: Node) -> str:
    """Return the name of an operation, as users know it."""
    name: str = node.name().rpartition("::")[2]
    return name.rstrip("0123456789").removesuffix("Backward")


def number_of(value: Tensor) -> float | None:
    """Return the value of a Python number that torch wrapped; None for a tensor.

    A wrapped number does not decide the dtype of a result, which tells it from a tensor
    without dimensions, as ``mask.sum()`` is one.
    """
    if value.dim() or value.dtype == torch.bool:
        return None
    narrow = torch.float16 if value.is_floating_point() else torch.uint8
    with_other = torch.result_type(value, torch.empty((), dtype=narrow))
    return float(value) if with_other == narrow else None


def _signed(dim: int) -> int:
    """Return a dimension that autograd shows as an unsigned number."""
    return dim - 2**64 if dim >= 2**63 else dim

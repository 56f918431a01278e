"""Reads the graph of a loss: from its root back to the outputs of a module.

Every node on the way must be known to work on each record by itself, or to sum over
records with one public factor; then the loss is a mean or a sum of a term for each
sample, whatever the data.  What is not known is not refused, but reported.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch.autograd.graph import Node

from dpsgd_explorer.dp.losses.marks import ModulePass, mean_at, outputs_at
from dpsgd_explorer.dp.losses.operation import Operation
from dpsgd_explorer.dp.losses.reading import LossReading, Number
from dpsgd_explorer.dp.losses.states import (
    NotPerRecordError,
    Records,
    Reduced,
    State,
    joined,
)
from dpsgd_explorer.dp.losses.table import HANDLERS

Edge = tuple[Node, int]

MOST_OPERATIONS = 500
"""Operations between the outputs and the loss that are read."""
DEEPEST = 200
FARTHEST = 200
"""Operations that are looked through for the pass that an unknown loss belongs to."""


class Reader:
    """Reads one graph once.

    Attributes:
        passes: Of the modules whose outputs the loss was made of.
    """

    def __init__(self) -> None:
        self.passes: list[ModulePass] = []
        self._states: dict[Edge, State] = {}
        self._operations: list[str] = []
        self._numbers: list[Number] = []
        self._weighs = False
        self._depth = 0

    def read(self, roots: Sequence[Edge]) -> LossReading:
        """Return what the graph of the roots' sum tells.

        Raises:
            MixedLossError: a mean is weighted by the batch.
        """
        try:
            refusal = self._mismatch(self._sum_of(roots))
        except NotPerRecordError as error:
            refusal = str(error)
        if refusal:
            return LossReading(refusal)
        graph = " ".join(self._operations)
        return LossReading("", graph, tuple(self._numbers), self._weighs)

    def add_number(self, value: Number, *, weighs: bool) -> None:
        self._numbers.append(value)
        self._weighs |= weighs

    def is_count(self, source: State, divisor: float) -> bool:
        if not isinstance(source, Reduced) or source.divided:
            return False
        if self.passes[-1].loss_reduction != "mean":
            return False
        for count, name in source.counts.items():
            if count == divisor:
                self._operations.append(name)
                return True
        return False

    def is_loss_scale(self, value: float) -> bool:
        scales = [each.user_loss_scale() for each in self.passes]
        return value != 1.0 and value in scales

    def _sum_of(self, roots: Sequence[Edge]) -> Reduced:
        total: Reduced | None = None
        for node, result in roots:
            state = self._state(node, result, inside=False)
            if not isinstance(state, Reduced):
                raise NotPerRecordError("it is not one number for the batch")
            total = state if total is None else joined(total, state)
        if total is None or len(self.passes) != 1:
            raise NotPerRecordError("it is not made of one module's outputs alone")
        return total

    def _mismatch(self, total: Reduced) -> str:
        """Return why a known loss is not reduced as the engine was told."""
        (module_pass,) = self.passes
        found = "mean" if total.divided else "sum"
        expected = module_pass.loss_reduction
        if found == expected:
            return ""
        return f"it is a {found} over samples, and loss_reduction says {expected!r}"

    def _state(self, node: Node, result: int, inside: bool) -> State:
        known = self._states.get((node, result))
        if known is None:
            self._depth += 1
            if self._depth > DEEPEST or len(self._states) > MOST_OPERATIONS:
                raise NotPerRecordError("it has too many operations to be read")
            try:
                known = self._output(node, result) or self._any(node, result, inside)
            finally:
                self._depth -= 1
            self._states[node, result] = known
        return known

    def _output(self, node: Node, result: int) -> State | None:
        mark = outputs_at(node)
        if mark is None or result not in mark.shapes:
            return None
        module_pass, shape = mark.module_pass, mark.shapes[result]
        if module_pass not in self.passes:
            self.passes.append(module_pass)
        if shape:
            return Records(module_pass.size, shape)
        return self._any(node, result, inside=True)  # a loss inside the module

    def _any(self, node: Node, result: int, inside: bool) -> State:
        losses = mean_at(node)
        if losses is None:
            return self._computed(node, result, inside)
        source = self._state(*losses, inside)
        if not isinstance(source, Records) or (source.dim, source.repeats) != (0, 1):
            raise NotPerRecordError("per_sample_mean was not given a row a sample")
        self._operations.append("per_sample_mean")
        return Reduced(divided=True)

    def _computed(self, node: Node, result: int, inside: bool) -> State:
        operation = Operation(node, result, [], self)
        try:
            return self._known(operation, inside)
        except NotPerRecordError:
            size = self.passes[-1].size if inside else 0
            if not inside or operation.shape[:1] != (size,):
                raise
            return Records(size, operation.shape)  # the safety check has measured it

    def _known(self, operation: Operation, inside: bool) -> State:
        name = operation.node.name()
        handler = HANDLERS.get(name)
        if handler is None:
            raise NotPerRecordError(f"{operation.name} is not known to keep them apart")
        operation.sources = [
            None if source is None else self._state(source, number, inside)
            for source, number in operation.node.next_functions
        ]
        self._operations.append(name)
        return handler(operation)


def passes_of(roots: Sequence[Edge]) -> list[ModulePass]:
    """Return the passes nearest to the roots, whatever lies between."""
    found: list[ModulePass] = []
    seen, waiting = set(roots), list(roots)
    while waiting and len(seen) < FARTHEST:
        node, result = waiting.pop(0)
        mark = outputs_at(node)
        if mark is not None and result in mark.shapes:
            found.append(mark.module_pass)
            continue
        sources = {(n, i) for n, i in node.next_functions if n is not None} - seen
        seen |= sources
        waiting += sources
    return found

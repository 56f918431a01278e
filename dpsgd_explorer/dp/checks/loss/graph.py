"""Reads the graph of a loss, from its root back to the outputs of a module.

Every node between them must be known to keep records apart, or to sum over records with
one public factor.  Then the loss is a mean or a sum of one term per sample, whatever
the data.  An unknown operation is not refused but reported.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch.autograd.graph import Node

from dpsgd_explorer.dp.checks.loss.marks import (
    ModulePass,
    is_marked,
    mean_at,
    outputs_at,
)
from dpsgd_explorer.dp.checks.loss.operation import Operation
from dpsgd_explorer.dp.checks.loss.reading import LateCondition, LossReading, Number
from dpsgd_explorer.dp.checks.loss.states import (
    NotPerRecordError,
    Records,
    Reduced,
    State,
    UnknownOperationError,
    joined,
)
from dpsgd_explorer.dp.checks.loss.table import HANDLERS
from dpsgd_explorer.dp.checks.loss.targets import holds_loss, targets_of

Edge = tuple[Node, int]

#: Most operations between the outputs and the loss that are read.
MOST_OPERATIONS = 500
#: Deepest recursion, in operations: Python's own limit is 1,000 frames.
DEEPEST = 200
#: Most operations searched for the pass that an unknown loss belongs to.
FARTHEST = 200


class Reader:
    """Reads one graph once.

    Attributes:
        passes: The passes of the modules whose outputs the loss was computed from.
    """

    def __init__(self) -> None:
        self.passes: list[ModulePass] = []
        self._states: dict[Edge, State] = {}
        self._operations: list[str] = []
        self._numbers: list[Number] = []
        self._weighs = False
        self._ranges: list[tuple[float, float]] = []
        self._targets: set[Node] = set()
        self._late: list[LateCondition] = []
        self._depth = 0

    def read(self, roots: Sequence[Edge]) -> LossReading:
        """Return the reading of the sum of the roots.

        Raises:
            MixedLossError: a mean is weighted by the batch.
        """
        form = ""
        try:
            refusal = self._mismatch(self._sum_of(roots))
        except UnknownOperationError as error:
            refusal, form = str(error), form_of(roots)
        except NotPerRecordError as error:
            refusal = str(error)
        if refusal:
            return LossReading(refusal, late=tuple(self._late), form=form)
        graph = " ".join(self._operations)
        return LossReading(
            "",
            graph,
            tuple(self._numbers),
            tuple(self._ranges),
            self._weighs or bool(self._ranges),
            tuple(self._late),
        )

    def add_number(self, value: Number, *, weighs: bool) -> None:
        self._numbers.append(value)
        self._weighs |= weighs

    def add_range(self, least: float, largest: float) -> None:
        self._ranges.append((least, largest))

    def is_target(self, node: Node) -> bool:
        return node in self._targets

    def add_late(self, condition: LateCondition) -> None:
        self._late.append(condition)

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
        scales = [module_pass.user_loss_scale() for module_pass in self.passes]
        return value != 1.0 and value in scales

    def _sum_of(self, roots: Sequence[Edge]) -> Reduced:
        total: Reduced | None = None
        for node, result in roots:
            state = self._state(node, result, inside=False)
            if not isinstance(state, Reduced):
                raise NotPerRecordError("it is not one number for the batch")
            total = state if total is None else joined(total, state)
        if total is None or len(self.passes) != 1:
            raise NotPerRecordError(
                "it is not computed from the outputs of one module alone"
            )
        return total

    def _mismatch(self, total: Reduced) -> str:
        """Return why a known loss is not reduced as ``loss_reduction``; "" if it is."""
        (module_pass,) = self.passes
        reduction = "mean" if total.divided else "sum"
        expected = module_pass.loss_reduction
        if reduction == expected:
            return ""
        return f"it is a {reduction} over samples, but loss_reduction is {expected!r}"

    def _state(self, node: Node, result: int, inside: bool) -> State:
        state = self._states.get((node, result))
        if state is None:
            self._depth += 1
            if self._depth > DEEPEST or len(self._states) > MOST_OPERATIONS:
                raise UnknownOperationError("it has too many operations to check")
            try:
                state = self._marked(node, result, inside) if is_marked(node) else None
                if state is None:
                    state = self._computed(node, result, inside)
            finally:
                self._depth -= 1
            self._states[node, result] = state
        return state

    def _marked(self, node: Node, result: int, inside: bool) -> State | None:
        mark = outputs_at(node)
        if mark is None or result not in mark.shapes:
            return self._mean(node, inside)
        module_pass, shape = mark.module_pass, mark.shapes[result]
        if module_pass not in self.passes:
            self.passes.append(module_pass)
        if shape:
            # Of losses that the module returns, a factor may be a weight.
            is_loss = holds_loss(node)
            return Records(
                module_pass.size, shape, affine=not is_loss, targeted=is_loss
            )
        # A loss inside the module.
        return self._mean(node, True) or self._computed(node, result, inside=True)

    def _mean(self, node: Node, inside: bool) -> State | None:
        losses = mean_at(node)
        if losses is None:
            return None
        source = self._state(*losses, inside)
        if not isinstance(source, Records) or (source.dim, source.repeats) != (0, 1):
            raise NotPerRecordError("per_sample_mean did not get one row per sample")
        self._operations.append("per_sample_mean")
        return Reduced(divided=True)

    def _computed(self, node: Node, result: int, inside: bool) -> State:
        operation = Operation(node, result, [], self)
        try:
            name = node.name()
            handler = HANDLERS.get(name)
            if handler is None:
                raise UnknownOperationError(
                    f"{operation.name} is not known to keep samples independent"
                )
            self._targets.update(targets_of(node))
            for source, number in node.next_functions:
                known = None if source is None else self._state(source, number, inside)
                operation.sources.append(known)
            self._operations.append(name)
            return handler(operation)
        except NotPerRecordError:
            # The loss was computed inside the module.  What is unknown there is judged
            # by its shape: a row per record that mixes records fails the safety check.
            size = self.passes[-1].size if inside else 0
            if not inside or operation.shape[:1] != (size,):
                raise
            return Records(size, operation.shape)


def form_of(roots: Sequence[Edge]) -> str:
    """Return the operations from the roots to outputs of modules, in one string.

    "" if there are too many.  Losses of one function have one form.
    """
    order: dict[Node, int] = {}
    form, waiting = [], [node for node, _ in roots]
    while waiting:
        node = waiting.pop()
        if node in order:
            continue
        order[node] = len(order)
        if len(order) > MOST_OPERATIONS:
            return ""
        if is_marked(node) and outputs_at(node) is not None:
            form.append("outputs")
            continue
        sources = [source for source, _ in node.next_functions]
        known = [order.get(source, "new") for source in sources if source is not None]
        form.append(f"{node.name()}{known}{sources.count(None)}")
        waiting += [source for source in sources if source is not None]
    return " ".join(form)


def passes_of(roots: Sequence[Edge]) -> list[ModulePass]:
    """Return the passes nearest to the roots, through any operations."""
    passes: list[ModulePass] = []
    seen, waiting = set(roots), list(roots)
    while waiting and len(seen) < FARTHEST:
        node, result = waiting.pop(0)
        mark = outputs_at(node)
        if mark is not None and result in mark.shapes:
            passes.append(mark.module_pass)
            continue
        sources = {(n, i) for n, i in node.next_functions if n is not None} - seen
        seen |= sources
        waiting += sources
    return passes

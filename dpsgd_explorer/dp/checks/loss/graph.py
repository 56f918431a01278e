"""Reads the graph of a loss, from its root back to the outputs of a module.

Every node between them must be known to keep samples apart, or to sum over samples with
one public factor.  Then the loss is a mean or a sum of one term per sample, whatever
the data.  An unknown operation is not refused but reported.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace

from dpsgd_explorer.dp.checks.loss import autograd_nodes as nodes
from dpsgd_explorer.dp.checks.loss.autograd_nodes import Edge, GraphView, Question
from dpsgd_explorer.dp.checks.loss.marks import ModulePass, outputs_at
from dpsgd_explorer.dp.checks.loss.operations import (
    HANDLERS,
    Notes,
    Operation,
    Records,
    Reduced,
    State,
    joined,
    state_of,
)
from dpsgd_explorer.dp.checks.loss.patterns import MAY_SHOW_TARGETS, targets_of
from dpsgd_explorer.dp.checks.loss.reading import (
    LossReading,
    NotPerRecordError,
    UnknownOperationError,
)

#: Number of operations between the outputs and the loss that are read.
MAX_OPERATIONS = 500
#: Number of nested operations that are read: Python's own limit is 1,000 frames.
MAX_DEPTH = 200
#: Number of readings that are stored, each of about 3 kB.  Poisson batches of up to
#: 16,000 expected samples have fewer than 1,000 different sizes.
MAX_READINGS = 1_000


@dataclass(slots=True)
class _Branch:
    """The next question about a graph, and the reading or question by the answer."""

    question: Question
    answers: dict[Hashable, _Branch | LossReading] = field(default_factory=dict)


class KnownReadings:
    """Readings of earlier graphs, found again by the answers that led to them.

    A reading is a function of the answers that its ``GraphView`` gave.  A graph with
    equal answers therefore has an equal reading, and one other answer, as another
    operation, shape or number, leads to no reading.

    Attributes:
        count: Number of readings that are stored.
    """

    def __init__(self) -> None:
        self._first: dict[Hashable, _Branch | LossReading] = {}
        self.count = 0

    def find(self, view: GraphView) -> LossReading | None:
        """Returns the reading of an equal graph, or None.

        Raises:
            MixedLossError: a mean is weighted by the batch.
        """
        known = self._first.get(view.roots)
        view.is_asking = True
        try:
            while isinstance(known, _Branch):
                question, number, argument = known.question
                # As view.ask, without its call: each steady step comes here.
                answer = question(view, view.nodes[number], argument)
                view.answers[known.question] = answer
                known = known.answers.get(answer)
        except NotPerRecordError:
            return None  # the reading raises it again, and explains it
        finally:
            view.is_asking = False
        return known

    def add(self, view: GraphView, reading: LossReading) -> None:
        """Adds the reading of a graph."""
        if self.count >= MAX_READINGS:
            self._first, self.count = {}, 0
        answers = self._first
        answer: Hashable = view.roots
        for question, next_answer in view.answers.items():
            branch = answers.setdefault(answer, _Branch(question))
            if not isinstance(branch, _Branch) or branch.question != question:
                return
            answers, answer = branch.answers, next_answer
        answers[answer] = reading
        self.count += 1


KNOWN_READINGS = KnownReadings()


def read(roots: Sequence[Edge]) -> tuple[LossReading, list[ModulePass]]:
    """Returns the reading of the sum of some losses, and the passes they come from.

    Raises:
        MixedLossError: a mean is weighted by the batch.
    """
    view = GraphView(roots)
    passes, form = view.passes, ""
    try:
        reading = KNOWN_READINGS.find(view) or _Reader(view).read()
    except NotPerRecordError as error:
        form, passes = outline(roots)
        is_unknown = isinstance(error, UnknownOperationError)
        reading = LossReading(str(error), form=form if is_unknown else "")
    if view.late or view.ranges:
        ranges = () if reading.refusal else tuple(view.ranges)
        reading = replace(reading, late=tuple(view.late), ranges=ranges)
    return reading, passes


class _Reader:
    """Reads one graph once."""

    def __init__(self, view: GraphView) -> None:
        self._view = view
        self._notes = Notes(view)
        self._states: dict[tuple[int, int], State] = {}
        self._depth = 0

    def read(self) -> LossReading:
        """Returns the reading of the sum of the roots.

        Raises:
            NotPerRecordError: the loss is not known to keep the samples apart.
            MixedLossError: a mean is weighted by the batch.
        """
        self._check_reduction(self._sum_of_roots())
        notes = self._notes
        reading = LossReading(
            "",
            " ".join(notes.names),
            tuple(notes.numbers),
            weights=notes.weighs or bool(self._view.ranges),
        )
        if self._view.is_repeatable:
            KNOWN_READINGS.add(self._view, reading)
        return reading

    def _sum_of_roots(self) -> Reduced:
        total: Reduced | None = None
        for node, result in self._view.roots:
            state = self._state(node, result, inside=False)
            if not isinstance(state, Reduced):
                raise NotPerRecordError("it is not one number for the batch")
            total = state if total is None else joined(total, state)
        if total is None or len(self._view.passes) != 1:
            raise NotPerRecordError(
                "it is not computed from the outputs of one module alone"
            )
        return total

    def _check_reduction(self, total: Reduced) -> None:
        (module_pass,) = self._view.passes
        reduction = "mean" if total.divided else "sum"
        expected = module_pass.loss_reduction
        if reduction != expected:
            raise NotPerRecordError(
                f"it is a {reduction} over samples, but loss_reduction is {expected!r}"
            )

    def _state(self, node: int, result: int, inside: bool) -> State:
        state = self._states.get((node, result))
        if state is None:
            self._depth += 1
            if self._depth > MAX_DEPTH or len(self._states) > MAX_OPERATIONS:
                raise UnknownOperationError("it has too many operations to check")
            try:
                _, _, is_marked = self._view.ask(nodes.operation_at, node, None)
                if is_marked:
                    state = self._marked(node, result, inside)
                if state is None:
                    state = self._computed(node, result, inside)
            finally:
                self._depth -= 1
            self._states[node, result] = state
        return state

    def _marked(self, node: int, result: int, inside: bool) -> State | None:
        outputs = self._view.ask(nodes.outputs_of, node, result)
        if outputs is None:
            return self._mean(node, inside)
        size, shape, *_ = outputs
        if shape:
            # Of losses that the module returns, a factor may be a weight.
            is_own_loss = self._view.ask(nodes.is_loss, node, None)
            return Records(size, shape, affine=not is_own_loss, targeted=is_own_loss)
        # A loss inside the module.
        return self._mean(node, True) or self._computed(node, result, inside=True)

    def _mean(self, node: int, inside: bool) -> State | None:
        losses = self._view.ask(nodes.averaged_by, node, None)
        if losses is None:
            return None
        source = self._state(*losses, inside)
        if not isinstance(source, Records) or (source.dim, source.repeats) != (0, 1):
            raise NotPerRecordError("per_sample_mean did not get one row per sample")
        self._notes.names.append("per_sample_mean")
        return Reduced(divided=True)

    def _computed(self, node: int, result: int, inside: bool) -> State:
        operation = Operation(node, result, [], self._notes)
        try:
            name = self._view.name(node)
            if name not in HANDLERS:
                known_as = nodes.operation_name(name)
                raise UnknownOperationError(
                    f"{known_as} is not known to keep samples independent"
                )
            if name in MAY_SHOW_TARGETS:
                self._notes.targets.update(self._view.ask(targets_of, node, None))
            for source, number in self._view.sources(node):
                known = None if source is None else self._state(source, number, inside)
                operation.sources.append(known)
            self._notes.names.append(name)
            return state_of(operation)
        except NotPerRecordError:
            # The loss was computed inside the module.  An unknown operation there is
            # judged by its shape: a row per sample that mixes samples fails the check
            # of the module.
            size = self._view.passes[-1].size if inside else 0
            if not inside or operation.shape[:1] != (size,):
                raise
            return Records(size, operation.shape)


def outline(roots: Sequence[Edge]) -> tuple[str, list[ModulePass]]:
    """Returns the form of a loss, and the passes of the modules closest to it.

    The form is the text of all operations from the roots to outputs of modules.  Losses
    that one function computes have one form.  It is "" if there are more than
    ``MAX_OPERATIONS``.
    """
    form: list[str] = []
    passes: list[ModulePass] = []
    order = {edge: number for number, edge in enumerate(roots)}
    waiting = list(roots)
    for node, result in waiting:
        mark = outputs_at(node)
        if mark is not None and result in mark.shapes:
            passes.append(mark.module_pass)
            form.append("outputs")
            continue
        sources = [
            (source, n) for source, n in node.next_functions if source is not None
        ]
        for edge in sources:
            if edge not in order:
                order[edge] = len(waiting)
                waiting.append(edge)
        missing = len(node.next_functions) - len(sources)
        form.append(f"{node.name()}{[order[edge] for edge in sources]}{missing}")
        if len(waiting) > MAX_OPERATIONS:
            return "", passes
    return " ".join(form), passes

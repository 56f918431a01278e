"""Reads the graph of a loss, from its root back to the outputs of a module.

Every node of the graph must be an operation that mixes no samples, or that sums over
samples with one public factor.  Then the loss is a mean or a sum of one term per sample
for all data.  A loss with an unknown operation is not rejected by an error; its reading
contains the reason.
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
    PerSampleTensor,
    SampleSum,
    State,
    added,
    state_of,
)
from dpsgd_explorer.dp.checks.loss.patterns import MAY_SHOW_TARGETS, targets_of
from dpsgd_explorer.dp.checks.loss.reading import (
    LossReading,
    NotPerSampleError,
    UnknownOperationError,
)

#: Maximum number of operations between the outputs and the loss.  It bounds the time.
MAX_OPERATIONS = 500
#: Maximum number of nested operations.  Python's limit is 1,000 frames, and each
#: operation takes a few.
MAX_DEPTH = 200
#: Maximum number of stored readings, each of about 3 kB.  Poisson batches of up to
#: 16,000 expected samples have fewer than 1,000 different sizes.
MAX_READINGS = 1_000


@dataclass(slots=True)
class _Branch:
    """A question about a graph, and the next question or the reading per answer."""

    question: Question
    answers: dict[Hashable, _Branch | LossReading] = field(default_factory=dict)


class KnownReadings:
    """Readings of earlier graphs, in a tree of questions and answers.

    A reading is a function of the answers that its ``GraphView`` gave.  A graph with
    equal answers therefore has an equal reading.  One different answer, such as another
    operation, shape or number, leads to no stored reading.

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
        entry = self._first.get(view.roots)
        view.is_asking = True
        try:
            while isinstance(entry, _Branch):
                question, number, argument = entry.question
                # This is view.ask without its overhead, since most steps come here.
                answer = question(view, view.nodes[number], argument)
                view.answers[entry.question] = answer
                entry = entry.answers.get(answer)
        except NotPerSampleError:
            return None  # _Reader raises the error again, and explains it
        finally:
            view.is_asking = False
        return entry

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
    """Returns the reading of the sum of some losses, and their module passes.

    Args:
        roots: The losses, as edges of the graph.

    Raises:
        MixedLossError: a mean is weighted by the batch.
    """
    view = GraphView(roots)
    passes, form = view.passes, ""
    try:
        reading = KNOWN_READINGS.find(view) or _Reader(view).read()
    except NotPerSampleError as error:
        form, passes = outline(roots)
        is_unknown = isinstance(error, UnknownOperationError)
        reading = LossReading(str(error), form=form if is_unknown else "")
    if view.late or view.ranges:
        ranges = () if reading.rejection else tuple(view.ranges)
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
            NotPerSampleError: the loss may mix the samples.
            MixedLossError: a mean is weighted by the batch.
        """
        self._check_reduction(self._sum_of_roots())
        notes = self._notes
        reading = LossReading(
            "",
            " ".join(notes.names),
            tuple(notes.numbers),
            weights=notes.may_be_statistic or bool(self._view.ranges),
        )
        if self._view.is_repeatable:
            KNOWN_READINGS.add(self._view, reading)
        return reading

    def _sum_of_roots(self) -> SampleSum:
        total: SampleSum | None = None
        for node, result in self._view.roots:
            state = self._state(node, result, inside=False)
            if not isinstance(state, SampleSum):
                raise NotPerSampleError("it is not one number for the batch")
            total = state if total is None else added(total, state)
        if total is None or len(self._view.passes) != 1:
            raise NotPerSampleError(
                "it is not computed from the outputs of one module alone"
            )
        return total

    def _check_reduction(self, total: SampleSum) -> None:
        (module_pass,) = self._view.passes
        reduction = "mean" if total.is_mean else "sum"
        expected = module_pass.loss_reduction
        if reduction != expected:
            raise NotPerSampleError(
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
            # If the module returns losses, a factor may be a weight, and no target.
            is_loss = self._view.ask(nodes.is_loss, node, None)
            return PerSampleTensor(
                size, shape, is_affine=not is_loss, has_target=is_loss
            )
        # A loss inside the module.
        return self._mean(node, True) or self._computed(node, result, inside=True)

    def _mean(self, node: int, inside: bool) -> State | None:
        losses = self._view.ask(nodes.averaged_by, node, None)
        if losses is None:
            return None
        source = self._state(*losses, inside)
        if (
            not isinstance(source, PerSampleTensor)
            or source.dim != 0
            or source.repeats != 1
        ):
            raise NotPerSampleError("per_sample_mean did not get one row per sample")
        self._notes.names.append("per_sample_mean")
        return SampleSum(is_mean=True)

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
                state = None if source is None else self._state(source, number, inside)
                operation.sources.append(state)
            self._notes.names.append(name)
            return state_of(operation)
        except NotPerSampleError:
            # The loss was computed inside the module, whose outputs the safety check
            # measures.  If the result of an unknown operation has one row per sample,
            # that check has shown that the rows do not mix samples.
            size = self._view.passes[-1].size if inside else 0
            if not inside or operation.shape[:1] != (size,):
                raise
            return PerSampleTensor(size, operation.shape)


def outline(roots: Sequence[Edge]) -> tuple[str, list[ModulePass]]:
    """Returns the form of a loss, and its module passes.

    The form is the text of all operations from the roots to outputs of modules.  All
    losses that one function computes have one form.  If there are more than
    ``MAX_OPERATIONS``, the form is "".
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

"""The operations of autograd that are known to keep the samples of a batch apart.

A handler takes an :class:`Operation` and returns the state of its result.  The numbers
in it are noted: they must be equal in all batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial, reduce
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.graph import Node

from dpsgd_explorer.dp.backends import backend_of
from dpsgd_explorer.dp.backends.asynchronous import LateFlag
from dpsgd_explorer.dp.checks.loss import autograd_nodes, patterns
from dpsgd_explorer.dp.checks.loss.autograd_nodes import (
    A,
    Ask,
    GraphView,
    T,
    saved_value,
    signed,
)
from dpsgd_explorer.dp.checks.loss.reading import (
    LateCondition,
    NotPerRecordError,
    Number,
    UnknownOperationError,
)
from dpsgd_explorer.errors import MixedLossError

Shape = tuple[int, ...]

#: Saved numbers that change the gradient; a batch must not decide them.
PARAMETERS = (
    "exponent", "min", "max", "beta", "threshold", "negative_slope", "alpha",
    "min_val", "max_val", "delta", "p", "margin", "ord",
)  # fmt: skip
#: Powers, margins and limits that are no statistic of a batch.
USUAL_PARAMETERS = (0, 1, 2)
#: Number of entries of a tensor of constants that is compared from batch to batch.
MAX_CONSTANTS = 10_000
#: Number of entries of constants with which a reading is stored; it bounds the memory.
MAX_STORED_CONSTANTS = 100
#: Largest distance from 1 of the sum of a soft target's probabilities: they may have
#: been computed in half precision, whose unit round-off is 5e-4.
MAX_SUM_ERROR = 1e-3
#: Counts below these are exact in a sum of ones: torch adds total weights in floats.
LARGEST_EXACT = {torch.float32: 2**24, torch.float64: 2**53}
#: The numbers by which torch stores a reduction.
NONE, MEAN = 0, 1

UNKNOWN = "a tensor of unknown origin"
UNKNOWN_FACTOR = "it is multiplied or divided by a tensor (weights, a mask or its sum)"
UNKNOWN_TERM = "a tensor that may depend on the whole batch is added to the outputs"


class Records(NamedTuple):
    """A tensor of which every element depends on one sample alone.

    Attributes:
        size: Number of samples of the batch, B.
        shape: Shape of the tensor.
        dim: The dimension that counts samples; its length is B * repeats.
        repeats: Consecutive indices along ``dim`` that belong to one sample.
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
        """Returns the state as the input of a nonlinear function.

        Raises:
            UnknownOperationError: a tensor of unknown origin was added.
        """
        if self.shifted:
            raise UnknownOperationError(UNKNOWN_TERM)
        return self._replace(class_dim=None, affine=False)

    def with_target(self) -> Records:
        """Returns the state after a tensor of unknown origin was used as the target.

        Raises:
            UnknownOperationError: another tensor was used as the target before.
        """
        if self.targeted:
            raise UnknownOperationError(
                "a second tensor that may depend on the whole batch is used"
            )
        return self._replace(targeted=True)

    def counts(self) -> dict[float, str]:
        """Returns {divisor: name} of the divisors that turn a sum into a mean."""
        # Where two divisors coincide, as for B = C classes, the first name is taken.
        elements = prod(self.shape)
        counts: dict[float, str] = {self.size: "records"}
        counts[self.size * self.repeats] = "rows"
        for dim, length in enumerate(self.shape):
            if dim != self.dim and length:
                counts.setdefault(elements // length, f"elements/{dim}")
        counts.setdefault(elements, "elements")
        return counts


class Reduced(NamedTuple):
    """A sum over all samples of one term each, with one common factor.

    Attributes:
        divided: If True, the sum is divided by the number of samples.
        counts: {divisor that would divide it so: the divisor's name}.
    """

    divided: bool
    counts: Mapping[float, str] = {}


State = Records | Reduced


def joined(first: Reduced, second: Reduced) -> Reduced:
    """Returns the state of the sum of two sums over samples.

    Raises:
        NotPerRecordError: one is a mean over samples and the other a sum.
    """
    if first.divided != second.divided:
        raise NotPerRecordError("a mean over samples is added to a sum over samples")
    shared = {n: first.counts[n] for n in first.counts if n in second.counts}
    return Reduced(first.divided, shared)


@dataclass(slots=True)
class Notes:
    """The graph of one loss, and the numbers in it that must be equal in all batches.

    Attributes:
        view: Access to the graph.
        names: Names of the operations, in the order of their reading.
        numbers: Constants, in order.
        weighs: If True, a number may be a statistic of the batch.
        targets: Numbers of nodes whose tensor of unknown origin is a target.
    """

    view: GraphView
    names: list[str] = field(default_factory=list)
    numbers: list[Number] = field(default_factory=list)
    weighs: bool = False
    targets: set[int] = field(default_factory=set)

    def add_number(self, value: Number, *, weighs: bool) -> None:
        """Adds a constant, and whether it may be a statistic of the batch."""
        self.numbers.append(value)
        self.weighs |= weighs

    def is_count(self, source: State, divisor: float) -> bool:
        """Returns whether a divisor turns a sum into a mean; if so, adds its name."""
        if not isinstance(source, Reduced) or source.divided:
            return False
        if self.view.passes[-1].loss_reduction != "mean":
            return False
        name = source.counts.get(divisor)
        if name is not None:
            self.names.append(name)
        return name is not None


@dataclass(slots=True)
class Operation:
    """A node of autograd's graph, with the states of its inputs.

    Attributes:
        node: The node's number in the view.
        result: Number of the result whose state is computed.
        sources: State of each input; None for an input that requires no gradient.
        notes: Collects the constants.
    """

    node: int
    result: int
    sources: list[State | None]
    notes: Notes

    @property
    def name(self) -> str:
        """The name of the operation in messages."""
        return autograd_nodes.operation_name(self.notes.view.name(self.node))

    @property
    def shape(self) -> Shape:
        """The shape of the result."""
        return self.ask(autograd_nodes.shape_of, self.result)

    @property
    def only(self) -> State:
        """The one input that requires a gradient."""
        present = [source for source in self.sources if source is not None]
        if len(present) != 1:
            raise NotPerRecordError(f"{self.name} has several inputs")
        return present[0]

    @property
    def records(self) -> Records:
        """The one input, before it was summed over samples."""
        return self.as_records(self.only)

    @property
    def pair(self) -> tuple[State, State] | None:
        """Both inputs of an operation on two; None if one requires no gradient."""
        first, second = self.sources
        return None if first is None or second is None else (first, second)

    def as_records(self, state: State | None) -> Records:
        """Returns the state of a tensor with samples.

        Raises:
            NotPerRecordError: the tensor was summed over the samples.
        """
        if not isinstance(state, Records):
            raise NotPerRecordError(f"{self.name} is applied after a sum over samples")
        return state

    def ask(self, question: Ask[A, T], argument: A) -> T:
        """Returns the answer to a question about the node; see ``GraphView.ask``."""
        return self.notes.view.ask(question, self.node, argument)

    def saved(self, value: str) -> Any:
        """Returns a saved number, string or sequence of numbers."""
        return self.notes.view.saved(self.node, value)

    def dim(self, value: str, length: int) -> int:
        """Returns a saved dimension of ``length`` dimensions, from the left."""
        return signed(self.saved(value)) % length

    def dims(self, length: int) -> set[int]:
        """Returns the saved dimensions; all of them if none is saved."""
        saved = self.saved("dim")
        dims = (saved,) if isinstance(saved, int) else saved or range(length)
        return {signed(dim) % length for dim in dims}

    def keeps_shape(self, source: State) -> State:
        """Returns the input's state, if the result has the input's shape.

        Raises:
            NotPerRecordError: the result has another shape, by broadcasting.
        """
        if isinstance(source, Records) and self.shape != source.shape:
            raise NotPerRecordError(
                f"{self.name} broadcasts outputs of shape {list(source.shape)} to "
                f"{list(self.shape)}"
            )
        return source

    def add_parameters(self, *, only_unusual: bool = False) -> None:
        """Adds the saved numbers that change the gradient.

        Args:
            only_unusual: If True, usual numbers are left out, as the order of a norm
                is: older states of runs do not contain them, and remain valid.
        """
        for name in self.notes.view.values(self.node):
            value = self.saved(name) if name in PARAMETERS else None
            if isinstance(value, int | float) and not isinstance(value, bool):
                is_usual = value in USUAL_PARAMETERS
                if not (is_usual and (only_unusual or name == "ord")):
                    self.notes.add_number(float(value), weighs=not is_usual)

    def add_constants(
        self,
        value: str,
        source: Records | None = None,
        unlike: NotPerRecordError | None = None,
    ) -> None:
        """Adds a saved tensor that is equal for all samples, such as class weights.

        Args:
            value: The tensor's name; its absence adds nothing.
            source: The state of the tensor that it weighs, if it may have a row for
                each sample.
            unlike: The error if the samples have different rows.
        """
        constants = self.ask(_constants, (value, source))
        if constants is None:
            raise unlike or UnknownOperationError(UNKNOWN_FACTOR)
        if constants:
            self.notes.add_number(constants, weighs=True)
        if len(constants) > MAX_STORED_CONSTANTS:
            self.notes.view.is_repeatable = False


def _constants(
    _: GraphView, node: Node, argument: tuple[str, Records | None]
) -> tuple[float, ...] | None:
    """Returns the entries of a constant for one sample, equal for all samples.

    Returns:
        () if the constant is absent, None if the samples have different entries.
    """
    value, source = argument
    constant: Tensor | None = saved_value(node, value)
    if constant is None:
        return ()
    missing = 0 if source is None else len(source.shape) - constant.dim()
    if source is not None and missing <= source.dim:
        rows = constant.transpose(0, source.dim - missing)
        if missing < 0 or not bool((rows == rows[:1]).all()):
            return None
        constant = rows[0]
    if constant.numel() > MAX_CONSTANTS:
        name = autograd_nodes.operation_name(node.name())
        raise NotPerRecordError(f"{name} has {constant.numel()} weights")
    return tuple(constant.flatten().tolist())


# Element-wise operations.


def _settled(op: Operation) -> Records:
    """Returns the input of a nonlinear function, with the added terms accounted for.

    Autograd stores no term of a sum, so ``x + 1e-6`` and ``x + statistic`` look alike.
    The first such term may be a target, as in ``(outputs - targets).abs()``.  A further
    one must be a number, which must be equal in all batches.

    Raises:
        NotPerRecordError: a tensor was added that may be a statistic of the batch.
    """
    source = op.records
    if source.shifted == 1:
        if not source.targeted:
            source = source.with_target()._replace(shifted=0)
        elif op.ask(patterns.adds_number, None):
            source = source._replace(shifted=0)
    return source.unshifted()


def nonlinear(op: Operation) -> State:
    """Reads a function of each element."""
    source = _settled(op)
    op.add_parameters()
    return op.keeps_shape(source)


def linear(op: Operation) -> State:
    """Reads a change of sign, precision or memory, or the sum with a number."""
    source = op.only
    op.add_parameters(only_unusual=True)
    return op.keeps_shape(source)


def softmax(op: Operation) -> State:
    """Reads a normalization over a dimension that does not count samples."""
    source = op.records.unshifted()
    dim = op.dim("dim", len(source.shape))
    if dim == source.dim:
        raise NotPerRecordError(f"{op.name} is computed over the samples")
    return source._replace(class_dim=dim)


def add(op: Operation) -> State:
    """Reads a sum or a difference."""
    op.add_parameters(only_unusual=True)
    if op.pair is not None:
        if any(isinstance(state, Reduced) for state in op.pair):
            return reduce(joined, _only_reduced(op.pair))
        shifted = sum(op.as_records(state).shifted for state in op.pair)
        return _aligned(op)._replace(shifted=shifted)
    source = op.keeps_shape(op.only)
    if isinstance(source, Reduced) or op.node in op.notes.targets:
        return source
    return source._replace(shifted=source.shifted + 1)


def multiply(op: Operation) -> State:
    """Reads the product of two tensors, or of one and a tensor without gradient."""
    if op.pair is not None:
        one, other = (op.as_records(state) for state in op.pair)
        if not (one.shifted or other.shifted):
            return _of_two(op)
        # The square of a residual, written as a product.
        is_square = op.ask(_are_equal, ("self", "other"))
        return op.keeps_shape(_squared(one, is_square))
    if op.node in op.notes.targets and isinstance(op.only, Records):
        return op.keeps_shape(op.only.with_target())
    factor = "other" if op.sources[1] is None else "self"
    return _scaled(op, op.only, factor, may_be_target=True)


def inner_product(op: Operation) -> State:
    """Reads the product of two matrices per sample, as of ``einsum("bc,bc->b")``."""
    if op.pair is not None:
        one, other = (op.as_records(state) for state in op.pair)
        if one.shifted or other.shifted:
            one = other = _squared(one, op.ask(_are_equal, ("self", "mat2")))
        source = one._replace(targeted=one.targeted or other.targeted)
    else:
        one = other = op.records
        if not one.affine or one.shifted:
            raise UnknownOperationError(UNKNOWN_FACTOR)
        source = one.with_target()
    if any((state.dim, state.repeats) != (0, 1) for state in (one, other)):
        raise NotPerRecordError(f"{op.name} pairs samples with each other")
    return source.unshifted()._replace(shape=op.shape)


def _are_equal(_: GraphView, node: Node, values: tuple[str, str]) -> bool:
    """Returns whether two factors are equal, the second matrix transposed."""
    first, second = (saved_value(node, value) for value in values)
    return torch.equal(first, second.mT if values[1] == "mat2" else second)


def _squared(residual: Records, is_square: bool) -> Records:
    if not is_square or residual.shifted > 1:
        return residual.unshifted()
    return residual.with_target()._replace(shifted=0, affine=False, class_dim=None)


def divide(op: Operation) -> State:
    """Reads the quotient of two tensors, or of one and a tensor without gradient."""
    if op.pair is not None:
        if not op.ask(patterns.adds_numbers_to_overlap, None):
            raise UnknownOperationError(UNKNOWN_TERM)
        return _of_two(op)
    source = op.sources[0]
    if source is None:
        raise UnknownOperationError("a tensor is divided by the outputs")
    divisor = op.ask(_scalar, "other")
    if divisor is not None and op.notes.is_count(source, divisor):
        return Reduced(divided=True)
    if op.ask(autograd_nodes.divides_by_lengths, None):
        return source
    return _scaled(op, source, "other")


def scale(op: Operation) -> State:
    """Reads the product or quotient with a constant of torch's own function."""
    source, value = op.only, float(op.saved("other"))
    if op.name == "Div" and op.notes.is_count(source, value):
        return Reduced(divided=True)
    # A constant of torch, such as a half, is no count of the batch.
    op.notes.add_number(value, weighs=False)
    return source


def larger(op: Operation) -> State:
    """Reads the larger or smaller of two tensors, entry by entry."""
    if op.pair is None:
        raise UnknownOperationError(f"{op.name} compares with {UNKNOWN}")
    one, other = (op.as_records(state) for state in op.pair)
    if one.shifted == other.shifted == 1 and not (one.targeted or other.targeted):
        if not op.ask(patterns.are_proportional, None):
            raise UnknownOperationError(f"{op.name} compares with {UNKNOWN}")
        # Both are multiples of one residual, as in the loss of a quantile.
        return op.keeps_shape(_squared(one, True))
    return _of_two(op)


def fill(op: Operation) -> State:
    """Reads the filling of masked entries; only an empty mask keeps samples apart."""
    if not op.ask(_is_never, "mask"):
        raise UnknownOperationError("a mask fills some of the losses")
    return linear(op)


def choose(op: Operation) -> State:
    """Reads a choice between a tensor and a constant by a condition."""
    if len([source for source in op.sources if source is not None]) != 1:
        raise UnknownOperationError("a condition chooses between two losses")
    source = op.records
    # torch's loss of label sequences leaves out those that cannot be aligned.
    if op.sources[0] is None and op.ask(_is_never, "condition"):
        return op.keeps_shape(source)
    if op.node not in op.notes.targets:
        raise UnknownOperationError("a condition leaves out some of the losses")
    return op.keeps_shape(source.with_target())


def _is_never(_: GraphView, node: Node, value: str) -> bool:
    return not bool(saved_value(node, value).any())


def _aligned(op: Operation) -> Records:
    """Returns the state of a result made of two tensors with the same samples.

    Raises:
        NotPerRecordError: the inputs differ in their samples or the samples' dimension.
    """
    one, other = (op.as_records(s) for s in op.sources if s is not None)
    shape = op.shape
    ends = {len(records.shape) - records.dim for records in (one, other)}
    dim = len(shape) - ends.pop()
    same = one.repeats == other.repeats and one.size == other.size
    if ends or not same or shape[dim] != one.shape[one.dim]:
        raise NotPerRecordError(f"{op.name} pairs samples with each other")
    return Records(
        one.size,
        shape,
        dim,
        one.repeats,
        affine=one.affine and other.affine,
        targeted=one.targeted or other.targeted,
    )


def _of_two(op: Operation) -> Records:
    for state in op.sources:
        op.as_records(state).unshifted()
    return _aligned(op)._replace(affine=False)


def _only_reduced(states: Iterable[State | None]) -> list[Reduced]:
    """Returns the states of sums over samples.

    Raises:
        NotPerRecordError: one tensor was not summed.
    """
    reduced = [state for state in states if isinstance(state, Reduced)]
    if len(reduced) != len(list(states)):
        raise NotPerRecordError(
            "the loss combines a sum over samples with per-sample values"
        )
    return reduced


def _scaled(
    op: Operation, source: State, value: str, *, may_be_target: bool = False
) -> State:
    """Returns the state after a product or quotient with a saved factor."""
    records = source if isinstance(source, Records) else None
    kind, number = op.ask(_kind_of_factor, (value, records, may_be_target))
    if kind == "number":
        op.notes.add_number(number, weighs=True)
    elif kind == "target" and records is not None:
        source = records.with_target()
    elif kind == "constants" and records is not None:
        op.add_constants(value, records, UnknownOperationError(UNKNOWN_FACTOR))
    elif kind == "unknown":
        raise UnknownOperationError(UNKNOWN_FACTOR)
    return op.keeps_shape(source)


def _kind_of_factor(
    view: GraphView, node: Node, argument: tuple[str, Records | None, bool]
) -> tuple[str, float]:
    """Returns the meaning of a factor, and its value if it is a number."""
    value, source, may_be_target = argument
    factor: Tensor = saved_value(node, value)
    number = _number_of(factor)
    # The scale of a GradScaler changes from step to step and is divided out again.
    if _is_loss_scale(view, number if factor.dim() or number is not None else factor):
        return "loss scale", 0.0
    if number is not None:
        return "number", number
    if source is None:
        return "unknown", 0.0
    if _are_soft_targets(source, factor):
        return "soft target", 0.0
    if may_be_target and _is_target(source, factor):
        return "target", 0.0
    many_rows = source.size >= 2 or len(source.shape) - factor.dim() > source.dim
    return ("constants" if many_rows else "unknown"), 0.0


def _is_loss_scale(view: GraphView, value: float | Tensor | None) -> bool:
    if value is None:
        return False
    scales = [module_pass.user_loss_scale() for module_pass in view.passes]
    return float(value) != 1.0 and float(value) in scales


def _number_of(value: Tensor) -> float | None:
    """Returns the value of a Python number that torch wrapped; None for a tensor.

    A wrapped number does not decide the dtype of a result.  A tensor without
    dimensions, such as ``mask.sum()``, does.
    """
    if value.dim() or value.dtype == torch.bool:
        return None
    narrow = torch.float16 if value.is_floating_point() else torch.uint8
    with_other = torch.result_type(value, torch.empty((), dtype=narrow))
    return float(value) if with_other == narrow else None


def _scalar(_: GraphView, node: Node, value: str) -> float | None:
    """Returns a factor without dimensions; None for another factor."""
    factor: Tensor = saved_value(node, value)
    return None if factor.dim() else float(factor)


def _is_target(source: Records, factor: Tensor) -> bool:
    """Returns whether a factor is no weight: a sign, a direction, or a label.

    Outputs of the module, before any function, have no loss yet that a factor weighs.
    """
    if source.targeted or source.shifted or factor.shape != source.shape:
        return False
    if source.affine or bool((factor.abs() == 1).all()):
        return True
    lengths = factor.double().norm(dim=-1)
    return source.dim != len(source.shape) - 1 and bool(
        ((lengths - 1).abs() <= MAX_SUM_ERROR).all()
    )


def _are_soft_targets(source: Records, factor: Tensor) -> bool:
    """Returns whether a factor of log-probabilities is a distribution per sample."""
    if source.class_dim is None or factor.shape != source.shape:
        return False
    sums = factor.sum(source.class_dim)
    return bool(((sums - 1).abs() <= MAX_SUM_ERROR).all())


def gather(op: Operation) -> State:
    """Reads a choice along a dimension that does not count samples."""
    source = op.records
    dim = op.dim("dim", len(source.shape))
    if dim == source.dim or op.shape[source.dim] != source.shape[source.dim]:
        raise NotPerRecordError("values are gathered from other samples")
    return source.with_target()._replace(shape=op.shape, class_dim=None, affine=False)


def index(op: Operation) -> State:
    """Reads the choice of one entry per sample: ``x[torch.arange(B), targets]``."""
    source = op.records
    by_row = source.dim == 0 and source.repeats == 1 and op.shape[:1] == (source.size,)
    if not by_row or not op.ask(_are_all_rows, source.size):
        raise NotPerRecordError("samples are selected or reordered")
    return source.with_target()._replace(shape=op.shape, class_dim=None, affine=False)


def _are_all_rows(_: GraphView, node: Node, size: int) -> bool:
    rows = saved_value(node, "indices")[0]
    return rows is not None and torch.equal(rows.cpu(), torch.arange(size))


# Operations that move elements, or reduce along dimensions.


def reshape(op: Operation) -> State:
    """Reads a view in another shape, with the order of samples unchanged."""
    source = op.records
    dim = _record_dim(source, op.shape)
    if dim is None:
        raise NotPerRecordError(
            f"{list(source.shape)} is reshaped to {list(op.shape)}, across samples"
        )
    repeats = op.shape[dim] // source.size if op.shape else 1
    return source._replace(shape=op.shape, dim=dim, repeats=repeats, class_dim=None)


def _record_dim(source: Records, shape: Shape) -> int | None:
    """Returns the dimension that counts samples after a reshape; None if none does."""
    dim = source.dim
    if source.size == 1 and dim == 0:
        return 0  # one sample cannot be mixed with another
    if shape[:dim] != source.shape[:dim]:
        return None
    # A new dimension of length 1 before the samples moves them one to the right.
    while dim < len(shape) and shape[dim] == 1:
        dim += 1
    if dim == len(shape) or shape[dim] % source.size:
        return None
    return dim


def permute(op: Operation) -> State:
    """Reads another order of the dimensions."""
    source = op.records
    order = list(range(len(source.shape)))
    if op.name == "Permute":
        order = [signed(dim) % len(order) for dim in op.saved("dims")]
    elif op.name == "Transpose":
        first, second = op.dim("dim0", len(order)), op.dim("dim1", len(order))
        order[first], order[second] = order[second], order[first]
    else:
        order.reverse()
    classes = source.class_dim
    return source._replace(
        shape=tuple(source.shape[i] for i in order),
        dim=order.index(source.dim),
        class_dim=None if classes is None else order.index(classes),
    )


def cut(op: Operation) -> State:
    """Reads a slice along a dimension that does not count samples."""
    source = op.records
    dim = op.dim("dim", len(source.shape))
    if len(op.shape) == len(source.shape):
        if dim == source.dim and op.shape != source.shape:
            raise NotPerRecordError("some samples are left out")
        return source._replace(shape=op.shape)
    return _without(op, source, {dim})


def _without(op: Operation, source: Records, dims: set[int]) -> Records:
    """Returns the state without the dimensions, or with length 1 in their place."""
    if source.dim in dims:
        raise NotPerRecordError(f"{op.name} is computed over the samples")
    dim = source.dim
    if len(op.shape) < len(source.shape):
        dim -= len([d for d in dims if d < dim])
    return source._replace(shape=op.shape, dim=dim, class_dim=None)


def total(op: Operation) -> State:
    """Reads the sum or mean of all elements."""
    averages = op.name == "Mean"
    return Reduced(averages, {} if averages else op.records.counts())


def partial_total(op: Operation) -> State:
    """Reads a sum or mean along dimensions."""
    source = op.records
    dims = op.dims(len(source.shape))
    if source.dim not in dims:
        return _without(op, source, dims)
    averages = op.name == "Mean"
    rows: dict[float, str] = {source.size: "records"}
    rows[source.size * source.repeats] = "rows"
    return Reduced(averages, {} if averages else rows)


def fold(op: Operation) -> State:
    """Reads a nonlinear reduction along dimensions that do not count samples."""
    source = _settled(op)
    op.add_parameters()
    return _without(op, source, op.dims(len(source.shape)))


def expand(op: Operation) -> State:
    """Reads an expansion to an equal shape, as losses do before they compare."""
    return op.keeps_shape(op.only)


def stack(op: Operation) -> State:
    """Reads a stack or concatenation along a dimension that does not count samples."""
    first, *rest = op.sources
    if isinstance(first, Reduced):
        return reduce(joined, _only_reduced(rest), first)
    states = [op.as_records(state) for state in op.sources]
    source = states[0]
    for other in states:
        if (other.dim, other.repeats) != (source.dim, source.repeats):
            raise NotPerRecordError(f"{op.name} pairs samples with each other")
    at = op.dim("dim", len(op.shape))
    new = len(op.shape) > len(source.shape)
    if not new and at == source.dim:
        raise NotPerRecordError(f"{op.name} combines samples")
    return source._replace(
        shape=op.shape,
        dim=source.dim + (new and at <= source.dim),
        shifted=sum(state.shifted for state in states),
        class_dim=None,
        affine=all(state.affine for state in states),
        targeted=any(state.targeted for state in states),
    )


# Torch's own losses, which reduce over the batch themselves.


def regression(op: Operation) -> State:
    """Reads a loss that compares each element with its target, then reduces."""
    present = [term for term in op.sources if term is not None]
    source = _aligned(op) if len(present) == 2 else op.records
    for term in present:
        if not isinstance(term, Records) or term.unshifted().shape != source.shape:
            raise NotPerRecordError(f"{op.name} broadcasts its input")
    if len(present) == 1:
        source = source.with_target()
    op.add_parameters()
    for value in ("weight", "pos_weight"):
        if value in op.notes.view.values(op.node):
            text = f"{op.name} gives the samples different weights"
            op.add_constants(value, source, NotPerRecordError(text))
    return _reduced(op, source, source)


def multi_class(op: Operation) -> State:
    """Reads a loss that compares each sample's scores with its class, then reduces."""
    source = _scores(op)
    op.add_parameters()
    if op.name == "MultiMarginLoss":
        op.add_constants("weight")
    return _reduced(op, source, _without_classes(source))


def negative_log_likelihood(op: Operation) -> State:
    """Reads the choice of each row's class.

    A mean divides by the total weight of the batch, so that weight must be a count.
    """
    source = _scores(op)
    if op.saved("reduction") == MEAN:
        op.ask(_check_total_weight, source.size)
    else:
        op.add_constants("weight")
    return _reduced(op, source, _without_classes(source))


def connectionist(op: Operation) -> State:
    """Reads the loss of label sequences, from ``(T, B, C)`` to ``(B,)``."""
    source = op.records.unshifted().with_target()
    if source.dim != 1 or source.repeats != 1 or len(source.shape) != 3:
        raise NotPerRecordError(
            f"{op.name} uses the dimension of samples as steps or classes"
        )
    return source._replace(shape=op.shape, dim=0)


def _scores(op: Operation) -> Records:
    source = op.records.unshifted()
    if source.dim != 0 or len(source.shape) < 2:
        raise NotPerRecordError(f"{op.name} uses the dimension of samples as classes")
    return source.with_target()


def _without_classes(source: Records) -> Records:
    return source._replace(shape=source.shape[:1] + source.shape[2:])


def _reduced(op: Operation, source: Records, result: Records) -> State:
    reduction = op.saved("reduction")
    if reduction == NONE:
        return result
    return Reduced(reduction == MEAN, {} if reduction == MEAN else result.counts())


def _check_total_weight(view: GraphView, node: Node, size: int) -> None:
    """Raises MixedLossError if a mean does not divide by the number of its targets."""
    target, weights = saved_value(node, "target"), saved_value(node, "weight")
    ignored, total = (
        signed(saved_value(node, "ignore_index")),
        saved_value(node, "total_weight"),
    )
    failed = partial(_raise_mixed, total, target, weights, size)
    is_late = backend_of(target).is_async
    is_count: Any  # a bool, or a tensor of one
    if target.numel() < LARGEST_EXACT.get(total.dtype, 0):
        is_count = (total if is_late else float(total)) == target.numel()
    else:
        is_count = (target != ignored).all() & (weights is None)
    if weights is None and (is_late or not is_count):
        is_count = is_count | _are_equally_many(target, ignored, size)
    if is_late:
        view.late.append(LateCondition(LateFlag(is_count), failed))
    elif not is_count:
        failed()


def _raise_mixed(
    total: Tensor, target: Tensor, weights: Tensor | None, size: int
) -> str:
    cause = (
        "some targets are ignore_index" if weights is None else "classes have weights"
    )
    raise MixedLossError(
        f"the loss of {size} samples is divided by the total weight of the batch, "
        f"{float(total):g} for {target.numel()} targets, since {cause}: each sample "
        'then changes the gradients of all others. Use reduction="none", and compute '
        "the mean with dpsgd_explorer.dp.per_sample_mean(losses, mask)."
    )


def _are_equally_many(target: Tensor, ignored: int, size: int) -> Tensor:
    """Returns whether all samples have an equal number of targets that count.

    Then the mean over all targets is the mean over samples of their means.
    """
    counts = (target.reshape(size, -1) != ignored).sum(1)
    return (counts == counts[0]).all() & (counts[0] > 0)


Handler = Callable[[Operation], State]

_HANDLERS: tuple[Handler, ...] = (
    nonlinear, linear, softmax, add, multiply, divide, scale, larger, fill, choose,
    inner_product, gather, index, reshape, permute, cut, total, partial_total, fold,
    expand, stack, regression, multi_class, negative_log_likelihood, connectionist,
)  # fmt: skip
_BY_FAMILY = {handler.__name__: handler for handler in _HANDLERS}
#: {node's name: handler}; an operation without a handler is reported as unknown.
HANDLERS: Mapping[str, Handler] = {
    name: _BY_FAMILY[family] for name, family in autograd_nodes.FAMILY_OF.items()
}
#: Handlers of operations that only move elements: a sum over samples passes unchanged.
_MOVING = (reshape, permute, cut, total, partial_total)


def state_of(op: Operation) -> State:
    """Returns the state of an operation's result.

    Raises:
        NotPerRecordError: the operation is not known to keep the samples apart.
        MixedLossError: the weight of a sample depends on its batch.
    """
    handler = HANDLERS[op.notes.view.name(op.node)]
    if handler in _MOVING and isinstance(op.only, Reduced):
        return op.only
    return handler(op)

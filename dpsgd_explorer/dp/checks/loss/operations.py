"""The operations of autograd that are known not to mix the samples of a batch.

A handler takes an :class:`Operation` and returns the state of its result.  It notes the
numbers that the operation contains, which must be equal in all batches.
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
    NotPerSampleError,
    Number,
    UnknownOperationError,
)
from dpsgd_explorer.errors import MixedLossError

Shape = tuple[int, ...]

#: Names of saved numbers that change the gradient, so no batch may determine them.
PARAMETER_NAMES = (
    "exponent", "min", "max", "beta", "threshold", "negative_slope", "alpha",
    "min_val", "max_val", "delta", "p", "margin", "ord",
)  # fmt: skip
#: Powers, margins and limits that are too common to be a statistic of a batch.
USUAL_PARAMETERS = (0, 1, 2)
#: Maximum number of entries of a tensor of constants, which all batches must share.
#: It bounds the time and the size of saved states.
MAX_CONSTANTS = 10_000
#: Maximum number of entries of a tensor of constants in a stored reading.  It bounds
#: the memory.
MAX_STORED_CONSTANTS = 100
#: Largest distance from 1 of the sum of a soft target's probabilities, which may have
#: been computed in half precision, with a unit round-off of 5e-4.
MAX_SUM_ERROR = 1e-3
#: {dtype: count below which a sum of ones is exact}.  Torch computes the total weight
#: of a loss as such a sum.
MAX_EXACT_COUNTS = {torch.float32: 2**24, torch.float64: 2**53}
#: Torch's numbers of the reductions "none" and "mean".
NONE, MEAN = 0, 1

# Reasons why a loss is not confirmed.
UNKNOWN_TENSOR = "a tensor of unknown origin"
UNKNOWN_FACTOR = "it is multiplied or divided by a tensor (weights, a mask or its sum)"
UNKNOWN_TERM = "a tensor that may depend on the whole batch is added to the outputs"


class PerSampleTensor(NamedTuple):
    """The state of a tensor whose elements depend on one sample each.

    Attributes:
        size: Number of samples of the batch, B.
        shape: Shape of the tensor.
        dim: The dimension that counts samples; its length is B * repeats.
        repeats: Consecutive indices along ``dim`` that belong to one sample.
        unknown_terms: Number of tensors of unknown origin that were added.  They do not
            change gradients as long as all later operations are linear.
        class_dim: The dimension of the last softmax; None after another operation.
        is_affine: If True, all operations since the module's outputs were linear.
        has_target: If True, a tensor of unknown origin was used as the target.  A
            second tensor of unknown origin could be a statistic of the batch.
    """

    size: int
    shape: Shape
    dim: int = 0
    repeats: int = 1
    unknown_terms: int = 0
    class_dim: int | None = None
    is_affine: bool = False
    has_target: bool = False

    def require_known_terms(self) -> PerSampleTensor:
        """Returns the state of the tensor as the input of a nonlinear function.

        Raises:
            UnknownOperationError: a tensor of unknown origin was added.
        """
        if self.unknown_terms:
            raise UnknownOperationError(UNKNOWN_TERM)
        return self._replace(class_dim=None, is_affine=False)

    def with_target(self) -> PerSampleTensor:
        """Returns the state after a tensor of unknown origin was used as the target.

        Raises:
            UnknownOperationError: another tensor was used as the target before.
        """
        if self.has_target:
            raise UnknownOperationError(
                "a second tensor that may depend on the whole batch is used"
            )
        return self._replace(has_target=True)

    def counts(self) -> dict[float, str]:
        """Returns {divisor: name} of the divisors that turn a sum into a mean.

        If two divisors coincide, as for B = C classes, the first name is used.
        """
        elements = prod(self.shape)
        counts: dict[float, str] = {self.size: "records"}
        counts[self.size * self.repeats] = "rows"
        for dim, length in enumerate(self.shape):
            if dim != self.dim and length:
                counts.setdefault(elements // length, f"elements/{dim}")
        counts.setdefault(elements, "elements")
        return counts


class SampleSum(NamedTuple):
    """The state of a sum over samples of one term each, with one common factor.

    Attributes:
        is_mean: If True, the sum is divided by the number of samples.
        counts: {divisor: name} of the divisors that would turn the sum into a mean.
    """

    is_mean: bool
    counts: Mapping[float, str] = {}


State = PerSampleTensor | SampleSum


def added(first: SampleSum, second: SampleSum) -> SampleSum:
    """Returns the state of the sum of two sums over samples.

    Raises:
        NotPerSampleError: a mean over samples is added to a sum over samples.
    """
    if first.is_mean != second.is_mean:
        raise NotPerSampleError("a mean over samples is added to a sum over samples")
    shared = {n: first.counts[n] for n in first.counts if n in second.counts}
    return SampleSum(first.is_mean, shared)


@dataclass(slots=True)
class Notes:
    """The graph of one loss, and the numbers in it that must be equal in all batches.

    Attributes:
        view: Access to the graph.
        names: Names of the operations, in the order of their reading.
        numbers: Constants, in order.
        may_be_statistic: If True, a constant may be a statistic of the batch.
        targets: Numbers of nodes with a target as tensor of unknown origin.
    """

    view: GraphView
    names: list[str] = field(default_factory=list)
    numbers: list[Number] = field(default_factory=list)
    may_be_statistic: bool = False
    targets: set[int] = field(default_factory=set)

    def add_number(self, value: Number, *, may_be_statistic: bool) -> None:
        """Adds a constant.

        Args:
            value: The constant.
            may_be_statistic: If True, it may be a statistic of the batch.
        """
        self.numbers.append(value)
        self.may_be_statistic |= may_be_statistic

    def is_count(self, source: State, divisor: float) -> bool:
        """Returns True if a divisor turns a sum into a mean, and then adds its name."""
        if not isinstance(source, SampleSum) or source.is_mean:
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
        """The state of the only input that requires a gradient."""
        present = [source for source in self.sources if source is not None]
        if len(present) != 1:
            raise NotPerSampleError(f"{self.name} has several inputs")
        return present[0]

    @property
    def per_sample(self) -> PerSampleTensor:
        """The state of the only input, which must not be a sum over samples."""
        return self.as_per_sample(self.only)

    @property
    def pair(self) -> tuple[State, State] | None:
        """The states of two inputs; None if one of them requires no gradient."""
        first, second = self.sources
        return None if first is None or second is None else (first, second)

    def as_per_sample(self, state: State | None) -> PerSampleTensor:
        """Returns the state of a per-sample tensor.

        Raises:
            NotPerSampleError: the tensor is a sum over samples.
        """
        if not isinstance(state, PerSampleTensor):
            raise NotPerSampleError(f"{self.name} is applied after a sum over samples")
        return state

    def ask(self, question: Ask[A, T], argument: A) -> T:
        """Returns the answer to a question about the node; see ``GraphView.ask``."""
        return self.notes.view.ask(question, self.node, argument)

    def saved(self, value: str) -> Any:
        """Returns a saved number, string or sequence of numbers."""
        return self.notes.view.saved(self.node, value)

    def dim(self, value: str, length: int) -> int:
        """Returns a saved dimension as an index from 0 to ``length - 1``."""
        return signed(self.saved(value)) % length

    def dims(self, length: int) -> set[int]:
        """Returns the saved dimensions; all of them if none is saved."""
        saved = self.saved("dim")
        dims = (saved,) if isinstance(saved, int) else saved or range(length)
        return {signed(dim) % length for dim in dims}

    def keeps_shape(self, source: State) -> State:
        """Returns the input's state, if the result has the input's shape.

        Raises:
            NotPerSampleError: the result has another shape, by broadcasting.
        """
        if isinstance(source, PerSampleTensor) and self.shape != source.shape:
            raise NotPerSampleError(
                f"{self.name} broadcasts outputs of shape {list(source.shape)} to "
                f"{list(self.shape)}"
            )
        return source

    def add_parameters(self, *, only_unusual: bool = False) -> None:
        """Adds the saved numbers that change the gradient.

        Args:
            only_unusual: If True, USUAL_PARAMETERS are left out, as they always are
                for the order of a norm.  Saved states of older versions do not contain
                them, and remain valid.
        """
        for name in self.notes.view.values(self.node):
            value = self.saved(name) if name in PARAMETER_NAMES else None
            if isinstance(value, int | float) and not isinstance(value, bool):
                is_usual = value in USUAL_PARAMETERS
                if not (is_usual and (only_unusual or name == "ord")):
                    self.notes.add_number(float(value), may_be_statistic=not is_usual)

    def add_constants(
        self,
        value: str,
        source: PerSampleTensor | None = None,
        unlike: NotPerSampleError | None = None,
    ) -> None:
        """Adds a saved tensor that is equal for all samples, such as class weights.

        Args:
            value: Name of the saved tensor; nothing is added if it is None.
            source: State of the tensor that it weighs, if it may have one row per
                sample.
            unlike: The error if the samples have different rows.
        """
        constants = self.ask(_constants, (value, source))
        if constants is None:
            raise unlike or UnknownOperationError(UNKNOWN_FACTOR)
        if constants:
            self.notes.add_number(constants, may_be_statistic=True)
        if len(constants) > MAX_STORED_CONSTANTS:
            self.notes.view.is_repeatable = False


def _constants(
    _: GraphView, node: Node, argument: tuple[str, PerSampleTensor | None]
) -> tuple[float, ...] | None:
    """Returns the entries of a saved tensor for one sample.

    Returns:
        () if there is no tensor; None if the samples have different entries.
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
        raise NotPerSampleError(f"{name} has {constant.numel()} weights")
    return tuple(constant.flatten().tolist())


# Element-wise operations.


def _nonlinear_input(op: Operation) -> PerSampleTensor:
    """Returns the input of a nonlinear function, with the added terms accounted for.

    Autograd saves no term of a sum, so ``x + 1e-6`` and ``x + statistic`` look alike.
    The first term of unknown origin may be a target, as in ``(outputs -
    targets).abs()``.  A second term must be a number, which must be equal in all
    batches.

    Raises:
        NotPerSampleError: an added tensor may be a statistic of the batch.
    """
    source = op.per_sample
    if source.unknown_terms == 1:
        if not source.has_target:
            source = source.with_target()._replace(unknown_terms=0)
        elif op.ask(patterns.adds_number, None):
            source = source._replace(unknown_terms=0)
    return source.require_known_terms()


def nonlinear(op: Operation) -> State:
    """Reads a function of each element."""
    source = _nonlinear_input(op)
    op.add_parameters()
    return op.keeps_shape(source)


def linear(op: Operation) -> State:
    """Reads a change of sign, precision or memory layout, or the sum with a number."""
    source = op.only
    op.add_parameters(only_unusual=True)
    return op.keeps_shape(source)


def softmax(op: Operation) -> State:
    """Reads a normalization over a dimension that does not count samples."""
    source = op.per_sample.require_known_terms()
    dim = op.dim("dim", len(source.shape))
    if dim == source.dim:
        raise NotPerSampleError(f"{op.name} is computed over the samples")
    return source._replace(class_dim=dim)


def add(op: Operation) -> State:
    """Reads a sum or a difference."""
    op.add_parameters(only_unusual=True)
    if op.pair is not None:
        if any(isinstance(state, SampleSum) for state in op.pair):
            return reduce(added, _sample_sums(op.pair))
        unknown_terms = sum(op.as_per_sample(state).unknown_terms for state in op.pair)
        return _aligned(op)._replace(unknown_terms=unknown_terms)
    source = op.keeps_shape(op.only)
    if isinstance(source, SampleSum) or op.node in op.notes.targets:
        return source
    return source._replace(unknown_terms=source.unknown_terms + 1)


def multiply(op: Operation) -> State:
    """Reads the product of two tensors; one may have no gradient."""
    if op.pair is not None:
        first, second = (op.as_per_sample(state) for state in op.pair)
        if not (first.unknown_terms or second.unknown_terms):
            return _elementwise(op)
        # The product of a residual with itself is a squared error.
        is_square = op.ask(_are_equal, ("self", "other"))
        return op.keeps_shape(_squared(first, is_square))
    if op.node in op.notes.targets and isinstance(op.only, PerSampleTensor):
        return op.keeps_shape(op.only.with_target())
    factor = "other" if op.sources[1] is None else "self"
    return _scaled(op, op.only, factor, may_be_target=True)


def inner_product(op: Operation) -> State:
    """Reads a product of two matrices per sample, as ``einsum("bc,bc->b")`` uses."""
    if op.pair is not None:
        first, second = (op.as_per_sample(state) for state in op.pair)
        if first.unknown_terms or second.unknown_terms:
            first = second = _squared(first, op.ask(_are_equal, ("self", "mat2")))
        source = first._replace(has_target=first.has_target or second.has_target)
    else:
        first = second = op.per_sample
        if not first.is_affine or first.unknown_terms:
            raise UnknownOperationError(UNKNOWN_FACTOR)
        source = first.with_target()
    if any((state.dim, state.repeats) != (0, 1) for state in (first, second)):
        raise NotPerSampleError(f"{op.name} pairs samples with each other")
    return source.require_known_terms()._replace(shape=op.shape)


def _are_equal(_: GraphView, node: Node, values: tuple[str, str]) -> bool:
    """Returns True if two factors are equal; a second matrix is transposed."""
    first, second = (saved_value(node, value) for value in values)
    return torch.equal(first, second.mT if values[1] == "mat2" else second)


def _squared(residual: PerSampleTensor, is_square: bool) -> PerSampleTensor:
    if not is_square or residual.unknown_terms > 1:
        return residual.require_known_terms()
    return residual.with_target()._replace(
        unknown_terms=0, is_affine=False, class_dim=None
    )


def divide(op: Operation) -> State:
    """Reads the quotient of two tensors; the divisor may have no gradient."""
    if op.pair is not None:
        if not op.ask(patterns.adds_numbers_to_overlap, None):
            raise UnknownOperationError(UNKNOWN_TERM)
        return _elementwise(op)
    source = op.sources[0]
    if source is None:
        raise UnknownOperationError("a tensor is divided by the outputs")
    divisor = op.ask(_scalar, "other")
    if divisor is not None and op.notes.is_count(source, divisor):
        return SampleSum(is_mean=True)
    if op.ask(autograd_nodes.divides_by_lengths, None):
        return source
    return _scaled(op, source, "other")


def scale(op: Operation) -> State:
    """Reads the product or quotient with a number in a function of torch."""
    source, value = op.only, float(op.saved("other"))
    if op.name == "Div" and op.notes.is_count(source, value):
        return SampleSum(is_mean=True)
    # A number inside a function of torch, such as 0.5, is no statistic of the batch.
    op.notes.add_number(value, may_be_statistic=False)
    return source


def maximum(op: Operation) -> State:
    """Reads the elementwise maximum or minimum of two tensors."""
    if op.pair is None:
        raise UnknownOperationError(f"{op.name} compares with {UNKNOWN_TENSOR}")
    first, second = (op.as_per_sample(state) for state in op.pair)
    has_target = first.has_target or second.has_target
    if first.unknown_terms == second.unknown_terms == 1 and not has_target:
        if not op.ask(patterns.are_proportional, None):
            raise UnknownOperationError(f"{op.name} compares with {UNKNOWN_TENSOR}")
        # Both are multiples of one residual, as in a quantile loss.
        return op.keeps_shape(_squared(first, True))
    return _elementwise(op)


def masked_fill(op: Operation) -> State:
    """Reads a masked fill, which is accepted with an empty mask only."""
    if not op.ask(_is_never, "mask"):
        raise UnknownOperationError("a mask fills some of the losses")
    return linear(op)


def where(op: Operation) -> State:
    """Reads a choice between a tensor and a constant by a condition."""
    if len([source for source in op.sources if source is not None]) != 1:
        raise UnknownOperationError("a condition chooses between two losses")
    source = op.per_sample
    # The CTC loss of torch uses such a choice to leave out label sequences that do not
    # fit their inputs.
    if op.sources[0] is None and op.ask(_is_never, "condition"):
        return op.keeps_shape(source)
    if op.node not in op.notes.targets:
        raise UnknownOperationError("a condition leaves out some of the losses")
    return op.keeps_shape(source.with_target())


def _is_never(_: GraphView, node: Node, value: str) -> bool:
    return not bool(saved_value(node, value).any())


def _aligned(op: Operation) -> PerSampleTensor:
    """Returns the state of an elementwise result of two tensors, after broadcasting.

    Raises:
        NotPerSampleError: the result combines different samples of the inputs.
    """
    first, second = (op.as_per_sample(s) for s in op.sources if s is not None)
    shape = op.shape
    # Broadcasting aligns shapes at their ends.
    from_end = {len(state.shape) - state.dim for state in (first, second)}
    dim = len(shape) - from_end.pop()
    is_equal = first.repeats == second.repeats and first.size == second.size
    if from_end or not is_equal or shape[dim] != first.shape[first.dim]:
        raise NotPerSampleError(f"{op.name} pairs samples with each other")
    return PerSampleTensor(
        first.size,
        shape,
        dim,
        first.repeats,
        is_affine=first.is_affine and second.is_affine,
        has_target=first.has_target or second.has_target,
    )


def _elementwise(op: Operation) -> PerSampleTensor:
    for state in op.sources:
        op.as_per_sample(state).require_known_terms()
    return _aligned(op)._replace(is_affine=False)


def _sample_sums(states: Iterable[State | None]) -> list[SampleSum]:
    """Returns the states, which must all be sums over samples.

    Raises:
        NotPerSampleError: a tensor was not summed.
    """
    reduced = [state for state in states if isinstance(state, SampleSum)]
    if len(reduced) != len(list(states)):
        raise NotPerSampleError(
            "the loss combines a sum over samples with per-sample values"
        )
    return reduced


def _scaled(
    op: Operation, source: State, value: str, *, may_be_target: bool = False
) -> State:
    """Returns the state after a product or quotient with a saved factor."""
    per_sample = source if isinstance(source, PerSampleTensor) else None
    kind, number = op.ask(_kind_of_factor, (value, per_sample, may_be_target))
    if kind == "number":
        op.notes.add_number(number, may_be_statistic=True)
    elif kind == "target" and per_sample is not None:
        source = per_sample.with_target()
    elif kind == "constants" and per_sample is not None:
        op.add_constants(value, per_sample, UnknownOperationError(UNKNOWN_FACTOR))
    elif kind == "unknown":
        raise UnknownOperationError(UNKNOWN_FACTOR)
    return op.keeps_shape(source)


def _kind_of_factor(
    view: GraphView, node: Node, argument: tuple[str, PerSampleTensor | None, bool]
) -> tuple[str, float]:
    """Returns the meaning of a factor, and its value if it is a number."""
    value, source, may_be_target = argument
    factor: Tensor = saved_value(node, value)
    number = _number_of(factor)
    # The scale of a GradScaler may change at every step, and clipping ignores it.
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

    A wrapped number does not change the dtype of a result, but a tensor without
    dimensions does, such as ``mask.sum()``.
    """
    if value.dim() or value.dtype == torch.bool:
        return None
    narrow = torch.float16 if value.is_floating_point() else torch.uint8
    with_other = torch.result_type(value, torch.empty((), dtype=narrow))
    return float(value) if with_other == narrow else None


def _scalar(_: GraphView, node: Node, value: str) -> float | None:
    """Returns the value of a factor without dimensions; None for other factors."""
    factor: Tensor = saved_value(node, value)
    return None if factor.dim() else float(factor)


def _is_target(source: PerSampleTensor, factor: Tensor) -> bool:
    """Returns True if a factor is a target (sign, direction or label), not a weight.

    Before any nonlinear function there is no loss yet that a factor could weigh.
    """
    if source.has_target or source.unknown_terms or factor.shape != source.shape:
        return False
    if source.is_affine or bool((factor.abs() == 1).all()):
        return True
    norms = factor.double().norm(dim=-1)
    return source.dim != len(source.shape) - 1 and bool(
        ((norms - 1).abs() <= MAX_SUM_ERROR).all()
    )


def _are_soft_targets(source: PerSampleTensor, factor: Tensor) -> bool:
    """Returns True if a factor of log-probabilities is a distribution per sample."""
    if source.class_dim is None or factor.shape != source.shape:
        return False
    sums = factor.sum(source.class_dim)
    return bool(((sums - 1).abs() <= MAX_SUM_ERROR).all())


def gather(op: Operation) -> State:
    """Reads a choice along a dimension that does not count samples."""
    source = op.per_sample
    dim = op.dim("dim", len(source.shape))
    if dim == source.dim or op.shape[source.dim] != source.shape[source.dim]:
        raise NotPerSampleError("values are gathered from other samples")
    return source.with_target()._replace(
        shape=op.shape, class_dim=None, is_affine=False
    )


def index(op: Operation) -> State:
    """Reads the choice of one entry per sample: ``x[torch.arange(B), targets]``."""
    source = op.per_sample
    by_row = source.dim == 0 and source.repeats == 1 and op.shape[:1] == (source.size,)
    if not by_row or not op.ask(_are_all_rows, source.size):
        raise NotPerSampleError("samples are selected or reordered")
    return source.with_target()._replace(
        shape=op.shape, class_dim=None, is_affine=False
    )


def _are_all_rows(_: GraphView, node: Node, size: int) -> bool:
    rows = saved_value(node, "indices")[0]
    return rows is not None and torch.equal(rows.cpu(), torch.arange(size))


# Operations that move elements, or reduce along dimensions.


def reshape(op: Operation) -> State:
    """Reads a view in another shape, with the order of samples unchanged."""
    source = op.per_sample
    dim = _sample_dim(source, op.shape)
    if dim is None:
        raise NotPerSampleError(
            f"{list(source.shape)} is reshaped to {list(op.shape)}, across samples"
        )
    repeats = op.shape[dim] // source.size if op.shape else 1
    return source._replace(shape=op.shape, dim=dim, repeats=repeats, class_dim=None)


def _sample_dim(source: PerSampleTensor, shape: Shape) -> int | None:
    """Returns the dimension that counts samples after a reshape, or None."""
    dim = source.dim
    if source.size == 1 and dim == 0:
        return 0  # a single sample cannot be mixed
    if shape[:dim] != source.shape[:dim]:
        return None
    # New dimensions of length 1 may come before the dimension of samples.
    while dim < len(shape) and shape[dim] == 1:
        dim += 1
    if dim == len(shape) or shape[dim] % source.size:
        return None
    return dim


def permute(op: Operation) -> State:
    """Reads another order of the dimensions."""
    source = op.per_sample
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


def narrow(op: Operation) -> State:
    """Reads a slice along a dimension that does not count samples."""
    source = op.per_sample
    dim = op.dim("dim", len(source.shape))
    if len(op.shape) == len(source.shape):
        if dim == source.dim and op.shape != source.shape:
            raise NotPerSampleError("some samples are left out")
        return source._replace(shape=op.shape)
    return _without(op, source, {dim})


def _without(op: Operation, source: PerSampleTensor, dims: set[int]) -> PerSampleTensor:
    """Returns the state after a reduction over dimensions without samples."""
    if source.dim in dims:
        raise NotPerSampleError(f"{op.name} is computed over the samples")
    dim = source.dim
    if len(op.shape) < len(source.shape):
        dim -= len([d for d in dims if d < dim])
    return source._replace(shape=op.shape, dim=dim, class_dim=None)


def sum_all(op: Operation) -> State:
    """Reads the sum or mean of all elements."""
    averages = op.name == "Mean"
    return SampleSum(averages, {} if averages else op.per_sample.counts())


def sum_dims(op: Operation) -> State:
    """Reads a sum or mean along dimensions."""
    source = op.per_sample
    dims = op.dims(len(source.shape))
    if source.dim not in dims:
        return _without(op, source, dims)
    averages = op.name == "Mean"
    rows: dict[float, str] = {source.size: "records"}
    rows[source.size * source.repeats] = "rows"
    return SampleSum(averages, {} if averages else rows)


def reduce_dims(op: Operation) -> State:
    """Reads a nonlinear reduction along dimensions that do not count samples."""
    source = _nonlinear_input(op)
    op.add_parameters()
    return _without(op, source, op.dims(len(source.shape)))


def expand(op: Operation) -> State:
    """Reads an expansion to an equal shape, which losses do before they compare."""
    return op.keeps_shape(op.only)


def stack(op: Operation) -> State:
    """Reads a stack or concatenation along a dimension that does not count samples."""
    first, *rest = op.sources
    if isinstance(first, SampleSum):
        return reduce(added, _sample_sums(rest), first)
    states = [op.as_per_sample(state) for state in op.sources]
    source = states[0]
    for other in states:
        if (other.dim, other.repeats) != (source.dim, source.repeats):
            raise NotPerSampleError(f"{op.name} pairs samples with each other")
    at = op.dim("dim", len(op.shape))
    new = len(op.shape) > len(source.shape)
    if not new and at == source.dim:
        raise NotPerSampleError(f"{op.name} combines samples")
    return source._replace(
        shape=op.shape,
        dim=source.dim + (new and at <= source.dim),
        unknown_terms=sum(state.unknown_terms for state in states),
        class_dim=None,
        is_affine=all(state.is_affine for state in states),
        has_target=any(state.has_target for state in states),
    )


# Losses of torch, which reduce over the batch.


def regression(op: Operation) -> State:
    """Reads a loss that compares each element with its target, then reduces."""
    present = [term for term in op.sources if term is not None]
    source = _aligned(op) if len(present) == 2 else op.per_sample
    for term in present:
        if (
            not isinstance(term, PerSampleTensor)
            or term.require_known_terms().shape != source.shape
        ):
            raise NotPerSampleError(f"{op.name} broadcasts its input")
    if len(present) == 1:
        source = source.with_target()
    op.add_parameters()
    for value in ("weight", "pos_weight"):
        if value in op.notes.view.values(op.node):
            text = f"{op.name} gives the samples different weights"
            op.add_constants(value, source, NotPerSampleError(text))
    return _with_reduction(op, source)


def multi_class(op: Operation) -> State:
    """Reads a loss that compares each sample's scores with its class, then reduces."""
    source = _scores(op)
    op.add_parameters()
    if op.name == "MultiMarginLoss":
        op.add_constants("weight")
    return _with_reduction(op, _without_classes(source))


def negative_log_likelihood(op: Operation) -> State:
    """Reads the negative log-likelihood of each row's class.

    A mean divides by the total weight of the batch, which must be the number of targets
    or of samples.
    """
    source = _scores(op)
    if op.saved("reduction") == MEAN:
        op.ask(_check_total_weight, source.size)
    else:
        op.add_constants("weight")
    return _with_reduction(op, _without_classes(source))


def ctc(op: Operation) -> State:
    """Reads the CTC loss of label sequences, from ``(T, B, C)`` to ``(B,)``."""
    source = op.per_sample.require_known_terms().with_target()
    if source.dim != 1 or source.repeats != 1 or len(source.shape) != 3:
        raise NotPerSampleError(
            f"{op.name} uses the dimension of samples as steps or classes"
        )
    return source._replace(shape=op.shape, dim=0)


def _scores(op: Operation) -> PerSampleTensor:
    source = op.per_sample.require_known_terms()
    if source.dim != 0 or len(source.shape) < 2:
        raise NotPerSampleError(f"{op.name} uses the dimension of samples as classes")
    return source.with_target()


def _without_classes(source: PerSampleTensor) -> PerSampleTensor:
    return source._replace(shape=source.shape[:1] + source.shape[2:])


def _with_reduction(op: Operation, result: PerSampleTensor) -> State:
    """Returns the state of a loss after its reduction."""
    reduction = op.saved("reduction")
    if reduction == NONE:
        return result
    return SampleSum(reduction == MEAN, {} if reduction == MEAN else result.counts())


def _check_total_weight(view: GraphView, node: Node, size: int) -> None:
    """Raises MixedLossError if a mean depends on the weights or ignored targets.

    A condition on an asynchronous device is added to the late conditions of the view.
    """
    target, weights = saved_value(node, "target"), saved_value(node, "weight")
    ignored, total = (
        signed(saved_value(node, "ignore_index")),
        saved_value(node, "total_weight"),
    )
    failed = partial(_raise_mixed, total, target, weights, size)
    is_late = backend_of(target).is_async
    is_count: Any  # a bool, or a tensor of one
    if target.numel() < MAX_EXACT_COUNTS.get(total.dtype, 0):
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
    """Returns True if all samples have an equal number of targets that are not ignored.

    Then the mean over all targets is the mean over samples of the per-sample means.
    """
    counts = (target.reshape(size, -1) != ignored).sum(1)
    return (counts == counts[0]).all() & (counts[0] > 0)


Handler = Callable[[Operation], State]

_HANDLERS: tuple[Handler, ...] = (
    nonlinear, linear, softmax, add, multiply, divide, scale, maximum, masked_fill,
    where, inner_product, gather, index, reshape, permute, narrow, sum_all, sum_dims,
    reduce_dims, expand, stack, regression, multi_class, negative_log_likelihood, ctc,
)  # fmt: skip
_BY_FAMILY = {handler.__name__: handler for handler in _HANDLERS}
#: {node's name: handler}; an operation without a handler is reported as unknown.
HANDLERS: Mapping[str, Handler] = {
    name: _BY_FAMILY[family] for name, family in autograd_nodes.FAMILY_OF.items()
}
#: Handlers of operations whose result is a sum over samples if the input is one.
_SUM_HANDLERS = (reshape, permute, narrow, sum_all, sum_dims)


def state_of(op: Operation) -> State:
    """Returns the state of an operation's result.

    Raises:
        NotPerSampleError: the operation may mix the samples.
        MixedLossError: the weight of a sample depends on its batch.
    """
    handler = HANDLERS[op.notes.view.name(op.node)]
    if handler in _SUM_HANDLERS and isinstance(op.only, SampleSum):
        return op.only
    return handler(op)

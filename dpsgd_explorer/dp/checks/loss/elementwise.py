"""Element-wise operations of a loss, and those that stay within one record.

A handler takes an :class:`Operation` and returns the state of its result.  Constants
that it meets are noted: they must be the same in all batches.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd.graph import Node

from dpsgd_explorer.dp.checks.loss.operation import (
    Operation,
    number_of,
    only_records,
    only_reduced,
)
from dpsgd_explorer.dp.checks.loss.overlap import overlap_of
from dpsgd_explorer.dp.checks.loss.shifts import NOISE, number_between, settled
from dpsgd_explorer.dp.checks.loss.states import (
    NotPerRecordError,
    Records,
    Reduced,
    State,
    UnknownOperationError,
    joined,
)

PARAMETERS = (
    "exponent", "min", "max", "beta", "threshold", "negative_slope", "alpha",
    "min_val", "max_val",
)  # fmt: skip
#: Largest distance from 1 of the sum of a soft target's probabilities.
ROUND_OFF = 1e-3
UNKNOWN = "a tensor of unknown origin"
UNKNOWN_FACTOR = "it is multiplied or divided by a tensor (weights, a mask or its sum)"


def nonlinear(op: Operation) -> State:
    """Apply a function to each element."""
    source = settled(op)
    op.add_numbers(PARAMETERS)
    return op.keeps_shape(source)


def linear(op: Operation) -> State:
    """Change sign, precision or memory, or add a number."""
    source = op.only
    op.add_factor("alpha")
    return op.keeps_shape(source) if isinstance(source, Records) else source


def softmax(op: Operation) -> State:
    """Normalise over a dimension that does not count records."""
    source = op.records.unshifted()
    dim = op.dim("dim", len(source.shape))
    if dim == source.dim:
        raise NotPerRecordError(f"{op.name} is computed over the samples")
    return source._replace(class_dim=dim)


def add(op: Operation) -> State:
    """Add or subtract."""
    first, second = op.sources
    op.add_factor("alpha")
    if first is not None and second is not None:
        if isinstance(first, Reduced) or isinstance(second, Reduced):
            return joined(*only_reduced([first, second]))
        both = aligned(op, first, second)
        return both._replace(shifted=first.shifted + second.shifted)
    source = op.only
    if isinstance(source, Reduced):
        return source
    if op.notes.is_target(op.node):
        return op.keeps_shape(source)
    return op.keeps_shape(source)._replace(shifted=source.shifted + 1)


def multiply(op: Operation) -> State:
    """Multiply two tensors, or one by a tensor that needs no gradient."""
    first, second = op.sources
    if first is not None and second is not None:
        return _product(op, first, second)
    constant = op.saved("other" if second is None else "self")
    if op.notes.is_target(op.node) and isinstance(op.only, Records):
        return op.keeps_shape(op.only.with_target())
    return _scaled(op, op.only, constant, may_be_target=True)


def inner_product(op: Operation) -> State:
    """Multiply a matrix for each record by another, as ``einsum("bc,bc->b")`` does."""
    first, second = op.sources
    if first is not None and second is not None:
        one, other = (only_records(state, op) for state in (first, second))
        if one.shifted or other.shifted:
            left, right = op.saved("self"), op.saved("mat2")
            same = torch.equal(left, right.transpose(1, 2))
            one = other = _squared(one, same)
        source = one._replace(targeted=one.targeted or other.targeted)
    else:
        one = other = only_records(op.only, op)
        if not one.affine or one.shifted:
            raise UnknownOperationError(UNKNOWN_FACTOR)
        source = one.with_target()
    if any((state.dim, state.repeats) != (0, 1) for state in (one, other)):
        raise NotPerRecordError(f"{op.name} pairs samples with each other")
    return source.unshifted()._replace(shape=op.shape)


def _product(op: Operation, first: State, second: State) -> Records:
    one, other = only_records(first, op), only_records(second, op)
    if not (one.shifted or other.shifted):
        return _of_two(op, one, other)
    # The square of a residual, written as a product.
    same = torch.equal(op.saved("self"), op.saved("other"))
    return op.keeps_shape(_squared(one, same))


def _squared(residual: Records, is_square: bool) -> Records:
    if not is_square or residual.shifted > 1:
        return residual.unshifted()
    return residual.with_target()._replace(shifted=0, affine=False, class_dim=None)


def divide(op: Operation) -> State:
    """Divide two tensors, or one by a tensor that needs no gradient."""
    first, second = op.sources
    if first is not None and second is not None:
        _check_overlap(op)
        return _of_two(op, first, second)
    if first is None:
        raise UnknownOperationError("a tensor is divided by the outputs")
    divisor = op.saved("other")
    if not divisor.dim() and op.notes.is_count(first, float(divisor)):
        return Reduced(divided=True)
    if _are_lengths(op.node, divisor):
        return first
    return _scaled(op, first, divisor)


def _check_overlap(op: Operation) -> None:
    """Note the numbers in a share of overlap.

    Raises:
        UnknownOperationError: something else than a number is added to its sums.
    """
    overlap = overlap_of(op.node)
    if overlap is None:
        return
    parts = ("self", overlap.numerator), ("other", overlap.denominator)
    for name, known in parts:
        total = op.saved(name).detach()
        added = number_between(total, known) if total.shape == known.shape else None
        if added is None:
            raise UnknownOperationError(
                "a tensor that may depend on the whole batch is added to the outputs"
            )
        op.notes.add_range(*added)


def _are_lengths(node: Node, divisor: Tensor) -> bool:
    """Whether losses of label sequences are divided by the lengths of the labels."""
    source = node.next_functions[0][0]
    if source is not None and source.name() == "WhereBackward0":
        source = source.next_functions[1][0]
    if source is None or source.name() != "CtcLossBackward0":
        return False
    lengths = torch.as_tensor(source._saved_target_lengths)  # type: ignore[attr-defined]
    return torch.equal(divisor.cpu(), lengths.clamp(min=1).to(divisor.dtype))


def scale(op: Operation) -> State:
    """Multiply or divide by a constant of torch's own function."""
    source, value = op.only, float(op.saved("other"))
    divides = op.node.name().startswith("Div")
    if divides and op.notes.is_count(source, value):
        return Reduced(divided=True)
    # A constant of torch, such as a half, is no count of the batch.
    op.notes.add_number(value, weighs=False)
    return source


def larger(op: Operation) -> State:
    """Take the larger or smaller of two tensors, entry by entry."""
    first, second = op.sources
    if first is None or second is None:
        raise UnknownOperationError(f"{op.name} compares with {UNKNOWN}")
    one, other = only_records(first, op), only_records(second, op)
    if one.shifted == other.shifted == 1 and not (one.targeted or other.targeted):
        if not _are_proportional(op.saved("self"), op.saved("other")):
            raise UnknownOperationError(f"{op.name} compares with {UNKNOWN}")
        # Both are multiples of one residual, as in the loss of a quantile.
        return op.keeps_shape(_squared(one, True))
    return _of_two(op, first, second)


def _are_proportional(first: Tensor, second: Tensor) -> bool:
    """Whether one tensor is a multiple of the other, up to round-off."""
    one, other = first.double().flatten(), second.double().flatten()
    size = one.dot(one)
    if not size:
        return not other.any()
    rest = other - one * (other.dot(one) / size)
    return bool(rest.norm() <= NOISE * torch.finfo(first.dtype).eps * other.norm())


def fill(op: Operation) -> State:
    """Fill masked entries; only an empty mask is known to keep records apart."""
    if bool(op.saved("mask").any()):
        raise UnknownOperationError("a mask fills some of the losses")
    return linear(op)


def choose(op: Operation) -> State:
    """Choose between a tensor and a constant, by a condition of unknown origin."""
    condition = op.saved("condition")
    if len([source for source in op.sources if source is not None]) != 1:
        raise UnknownOperationError("a condition chooses between two losses")
    source = op.records
    # torch's loss of label sequences leaves out those that cannot be aligned.
    only_infinite = op.sources[0] is None and not condition.any()
    if not (only_infinite or op.notes.is_target(op.node)):
        raise UnknownOperationError("a condition leaves out some of the losses")
    if not only_infinite:
        source = source.with_target()
    return op.keeps_shape(source)


def aligned(op: Operation, first: State, second: State) -> Records:
    """Return the state of a result made of two tensors with the same records.

    Raises:
        NotPerRecordError: the two differ in their records or in the dimension of them.
    """
    one, other = only_records(first, op), only_records(second, op)
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


def _of_two(op: Operation, first: State, second: State) -> Records:
    for state in (first, second):
        only_records(state, op).unshifted()
    return aligned(op, first, second)._replace(affine=False)


def _scaled(
    op: Operation, source: State, constant: Tensor, *, may_be_target: bool = False
) -> State:
    number = number_of(constant)
    # The scale of a GradScaler changes from step to step and is divided out again.
    if number is not None:
        if not op.notes.is_loss_scale(number):
            op.notes.add_number(number, weighs=True)
    elif constant.dim() == 0 and op.notes.is_loss_scale(float(constant)):
        pass
    elif not isinstance(source, Records):
        raise UnknownOperationError(UNKNOWN_FACTOR)
    elif _are_soft_targets(source, constant):
        pass
    elif may_be_target and _is_target(source, constant):
        source = source.with_target()
    else:
        op.add_constants(_of_one_record(op, source, constant))
    return op.keeps_shape(source) if isinstance(source, Records) else source


def _is_target(source: Records, factor: Tensor) -> bool:
    """Whether a factor is no weight of a sample: a sign, a direction, or a label.

    Outputs of the module, before any function, have no loss yet that it could weigh.
    """
    if source.targeted or source.shifted or factor.shape != source.shape:
        return False
    if source.affine or bool((factor.abs() == 1).all()):
        return True
    lengths = factor.double().norm(dim=-1)
    return source.dim != len(source.shape) - 1 and bool(
        ((lengths - 1).abs() <= ROUND_OFF).all()
    )


def _of_one_record(op: Operation, source: Records, constant: Tensor) -> Tensor:
    """Return the entries of a constant for one record, equal for all records.

    Raises:
        NotPerRecordError: the records have different ones.
    """
    missing = len(source.shape) - constant.dim()
    if constant.dim() == 0 or missing > source.dim:
        return constant
    if source.size < 2 or missing < 0:
        raise UnknownOperationError(UNKNOWN_FACTOR)
    rows = constant.transpose(0, source.dim - missing)
    if not bool((rows == rows[:1]).all()):
        raise UnknownOperationError(UNKNOWN_FACTOR)
    return rows[0]


def _are_soft_targets(source: Records, factor: Tensor) -> bool:
    """Whether a factor of log-probabilities is a distribution per record."""
    if source.class_dim is None or factor.shape != source.shape:
        return False
    return bool(((factor.sum(source.class_dim) - 1).abs() <= ROUND_OFF).all())


def gather(op: Operation) -> State:
    """Choose along a dimension that does not count records."""
    source = op.records
    dim = op.dim("dim", len(source.shape))
    if dim == source.dim or op.shape[source.dim] != source.shape[source.dim]:
        raise NotPerRecordError("values are gathered from other samples")
    return source.with_target()._replace(shape=op.shape, class_dim=None, affine=False)


def index(op: Operation) -> State:
    """Choose one entry per record, as ``x[torch.arange(B), targets]`` does."""
    source, indices = op.records, op.saved("indices")
    rows = torch.arange(source.size)
    by_row = source.dim == 0 and source.repeats == 1 and op.shape[:1] == (source.size,)
    if not by_row or indices[0] is None or not torch.equal(indices[0].cpu(), rows):
        raise NotPerRecordError("samples are selected or reordered")
    return source.with_target()._replace(shape=op.shape, class_dim=None, affine=False)

"""Element-wise operations of a loss, and those that stay within one record.

A handler takes an :class:`Operation` and returns the state of its result.  Constants
that it meets are noted: they must be the same in all batches.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dpsgd_explorer.dp.losses.operation import (
    Operation,
    number_of,
    only_records,
    only_reduced,
)
from dpsgd_explorer.dp.losses.states import (
    NotPerRecordError,
    Records,
    Reduced,
    State,
    joined,
)

PARAMETERS = ("exponent", "min", "max", "beta", "threshold", "negative_slope", "alpha")
#: Largest distance from 1 of the sum of a soft target's probabilities.
ROUND_OFF = 1e-3


def nonlinear(op: Operation) -> State:
    """Apply a function to each element."""
    op.add_numbers(PARAMETERS)
    return op.keeps_shape(op.records.unshifted())


def residual(op: Operation) -> State:
    """Apply a power or an absolute value: to outputs, or outputs less a target."""
    source = op.records
    # One shift is the target in ``(out - y) ** 2``, with a row per record; a second one
    # could be a statistic of the batch.
    if source.shifted == 1:
        source = source._replace(shifted=0)
    op.add_numbers(PARAMETERS)
    return op.keeps_shape(source.unshifted())


def linear(op: Operation) -> State:
    """Change sign, precision or memory, or add a number."""
    source = op.only
    return op.keeps_shape(source) if isinstance(source, Records) else source


def softmax(op: Operation) -> State:
    """Normalise over a dimension that does not count records."""
    source = op.records.unshifted()
    dim = op.dim("dim", len(source.shape))
    if dim == source.dim:
        raise NotPerRecordError(f"{op.name} is taken over the samples")
    return Records(*source[:-1], class_dim=dim)


def add(op: Operation) -> State:
    """Add or subtract."""
    first, second = op.sources
    if first is not None and second is not None:
        if isinstance(first, Reduced) or isinstance(second, Reduced):
            return joined(*only_reduced([first, second]))
        both = aligned(op, first, second)
        return both._replace(shifted=first.shifted + second.shifted)
    source = op.only
    if isinstance(source, Reduced):
        return source
    return op.keeps_shape(source)._replace(shifted=source.shifted + 1)


def multiply(op: Operation) -> State:
    """Multiply two tensors, or one by a tensor that needs no gradient."""
    first, second = op.sources
    if first is not None and second is not None:
        return _of_two(op, first, second)
    constant = op.saved("other" if second is None else "self")
    return _scaled(op, op.only, constant)


def divide(op: Operation) -> State:
    """Divide two tensors, or one by a tensor that needs no gradient."""
    first, second = op.sources
    if first is not None and second is not None:
        return _of_two(op, first, second)
    if first is None:
        raise NotPerRecordError("a tensor is divided by the outputs")
    divisor = op.saved("other")
    if not divisor.dim() and op.notes.is_count(first, float(divisor)):
        return Reduced(divided=True)
    return _scaled(op, first, divisor)


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
        raise NotPerRecordError(f"{op.name} compares with a tensor of unknown origin")
    return _of_two(op, first, second)


def fill(op: Operation) -> State:
    """Fill masked entries; only an empty mask is known to keep records apart."""
    if bool(op.saved("mask").any()):
        raise NotPerRecordError("a mask fills some of the losses")
    return linear(op)


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
    return Records(one.size, shape, dim, one.repeats)


def _of_two(op: Operation, first: State, second: State) -> Records:
    for state in (first, second):
        only_records(state, op).unshifted()
    return aligned(op, first, second)


def _scaled(op: Operation, source: State, constant: Tensor) -> State:
    number = number_of(constant)
    # The scale of a GradScaler changes from step to step and is divided out again.
    if number is not None:
        if not op.notes.is_loss_scale(number):
            op.notes.add_number(number, weighs=True)
    elif constant.dim() == 0 and op.notes.is_loss_scale(float(constant)):
        pass
    elif not (isinstance(source, Records) and _are_soft_targets(source, constant)):
        raise NotPerRecordError(
            "it is multiplied or divided by a tensor (weights, a mask or its sum)"
        )
    return op.keeps_shape(source) if isinstance(source, Records) else source


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
        raise NotPerRecordError("entries are gathered from other samples")
    return source._replace(shape=op.shape, class_dim=None)


def index(op: Operation) -> State:
    """Choose one entry per record, as ``x[torch.arange(B), targets]`` does."""
    source, indices = op.records, op.saved("indices")
    rows = torch.arange(source.size)
    by_row = source.dim == 0 and source.repeats == 1 and op.shape[:1] == (source.size,)
    if not by_row or indices[0] is None or not torch.equal(indices[0].cpu(), rows):
        raise NotPerRecordError("samples are chosen or put in another order")
    return source._replace(shape=op.shape, class_dim=None)

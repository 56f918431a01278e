"""Operations of a loss that move elements, or reduce along dimensions."""

from __future__ import annotations

from functools import reduce

from dpsgd_explorer.dp.checks.loss.operation import (
    Operation,
    only_records,
    only_reduced,
)
from dpsgd_explorer.dp.checks.loss.shifts import settled
from dpsgd_explorer.dp.checks.loss.states import (
    NotPerRecordError,
    Records,
    Reduced,
    State,
    joined,
)


def reshape(op: Operation) -> State:
    """View the elements in another shape, the order of records unchanged."""
    source = op.only
    if isinstance(source, Reduced):
        return source
    dim = _record_dim(source, op.shape)
    if dim is None:
        raise NotPerRecordError(
            f"{list(source.shape)} is reshaped to {list(op.shape)}, across samples"
        )
    repeats = op.shape[dim] // source.size if op.shape else 1
    return source._replace(shape=op.shape, dim=dim, repeats=repeats, class_dim=None)


def _record_dim(source: Records, shape: tuple[int, ...]) -> int | None:
    """Return the dimension that counts records after a reshape; None if none does."""
    dim = source.dim
    if source.size == 1 and dim == 0:
        return 0  # one record cannot be mixed with another
    if shape[:dim] != source.shape[:dim]:
        return None
    # A new dimension of length 1 before the records moves them one to the right.
    while dim < len(shape) and shape[dim] == 1:
        dim += 1
    if dim == len(shape) or shape[dim] % source.size:
        return None
    return dim


def transpose(op: Operation) -> State:
    """Exchange two dimensions."""
    source = op.only
    if isinstance(source, Reduced):
        return source
    order = list(range(len(source.shape)))
    first, second = op.dim("dim0", len(order)), op.dim("dim1", len(order))
    order[first], order[second] = order[second], order[first]
    return _permuted(source, order)


def transpose_matrix(op: Operation) -> State:
    """Exchange the two dimensions of a matrix."""
    source = op.records
    return _permuted(source, list(reversed(range(len(source.shape)))))


def permute(op: Operation) -> State:
    """Put dimensions in another order."""
    source = op.only
    if isinstance(source, Reduced):
        return source
    length = len(source.shape)
    order = [(d - 2**64 if d >= 2**63 else d) % length for d in op.saved("dims")]
    return _permuted(source, order)


def _permuted(source: Records, order: list[int]) -> Records:
    classes = source.class_dim
    return source._replace(
        shape=tuple(source.shape[i] for i in order),
        dim=order.index(source.dim),
        class_dim=None if classes is None else order.index(classes),
    )


def cut(op: Operation) -> State:
    """Take a slice along a dimension that does not count records."""
    source = op.only
    if isinstance(source, Reduced):
        return source
    dim = op.dim("dim", len(source.shape))
    if len(op.shape) == len(source.shape):
        if dim == source.dim and op.shape != source.shape:
            raise NotPerRecordError("some samples are left out")
        return source._replace(shape=op.shape)
    return _without(op, source, {dim})


def _without(op: Operation, source: Records, dims: set[int]) -> Records:
    """Return the state without these dimensions, or with length 1 in their place."""
    if source.dim in dims:
        raise NotPerRecordError(f"{op.name} is computed over the samples")
    dim = source.dim
    if len(op.shape) < len(source.shape):
        dim -= len([d for d in dims if d < dim])
    return source._replace(shape=op.shape, dim=dim, class_dim=None)


def total(op: Operation) -> State:
    """Sum or average all elements."""
    source = op.only
    averages = op.node.name().startswith("Mean")
    if isinstance(source, Reduced):
        return source
    return Reduced(averages, {} if averages else source.counts())


def partial_total(op: Operation) -> State:
    """Sum or average along dimensions."""
    source = op.only
    if isinstance(source, Reduced):
        return source
    dims = op.dims("dim", len(source.shape))
    if source.dim not in dims:
        return _without(op, source, dims)
    averages = op.node.name().startswith("Mean")
    rows = {source.size: "records", source.size * source.repeats: "rows"}
    return Reduced(averages, {} if averages else rows)


def fold(op: Operation) -> State:
    """Reduce by a nonlinear function along dimensions that do not count records."""
    source = settled(op)
    op.add_numbers(("p",))
    op.add_factor("ord")
    return _without(op, source, op.dims("dim", len(source.shape)))


def expand(op: Operation) -> State:
    """Expand to the same shape, as losses do with inputs of equal shapes."""
    source = op.only
    return source if isinstance(source, Reduced) else op.keeps_shape(source)


def stack(op: Operation) -> State:
    """Stack or concatenate along a dimension that does not count records."""
    first, *rest = op.sources
    if isinstance(first, Reduced):
        return reduce(joined, only_reduced(rest), first)
    source = only_records(first, op)
    for state in rest:
        other = only_records(state, op)
        if (other.dim, other.repeats) != (source.dim, source.repeats):
            raise NotPerRecordError(f"{op.name} pairs samples with each other")
    at = op.dim("dim", len(op.shape))
    new = len(op.shape) > len(source.shape)
    if not new and at == source.dim:
        raise NotPerRecordError(f"{op.name} combines samples")
    dim = source.dim + (new and at <= source.dim)
    states = [only_records(state, op) for state in op.sources]
    return source._replace(
        shape=op.shape,
        dim=dim,
        shifted=sum(state.shifted for state in states),
        class_dim=None,
        affine=all(state.affine for state in states),
        targeted=any(state.targeted for state in states),
    )

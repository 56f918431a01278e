"""Torch's own loss functions, which reduce over the batch themselves."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from dpsgd_explorer.dp.backends.triton.asynchronous import LateFlag, runs_behind
from dpsgd_explorer.dp.checks.loss.elementwise import aligned
from dpsgd_explorer.dp.checks.loss.operation import Operation
from dpsgd_explorer.dp.checks.loss.reading import LateCondition
from dpsgd_explorer.dp.checks.loss.states import (
    NotPerRecordError,
    Records,
    Reduced,
    State,
)
from dpsgd_explorer.errors import MixedLossError

NONE, MEAN, SUM = 0, 1, 2
#: Counts below these are exact in a sum of ones: torch adds total weights in floats.
LARGEST_EXACT = {torch.float32: 2**24, torch.float64: 2**53}


def regression(op: Operation) -> State:
    """Read a loss that compares each element with its target, then reduces."""
    present = [term for term in op.sources if term is not None]
    source = aligned(op, *present) if len(present) == 2 else op.records
    for term in present:
        if not isinstance(term, Records) or term.unshifted().shape != source.shape:
            raise NotPerRecordError(f"{op.name} broadcasts its input")
    if len(present) == 1:
        source = source.with_target()
    op.add_numbers(("beta", "delta", "p", "margin"))
    for name in ("weight", "pos_weight"):
        weights = getattr(op.node, f"_saved_{name}", None)
        if weights is not None:
            op.add_constants(_same_for_all(op, source, weights))
    return _reduced(op.saved("reduction"), source, source)


def multi_class(op: Operation) -> State:
    """Read a loss that compares each record's scores with its class, then reduces."""
    source = _scores(op)
    op.add_numbers(("p", "margin"))
    weights = getattr(op.node, "_saved_weight", None)
    if weights is not None:
        op.add_constants(weights)
    return _reduced(op.saved("reduction"), source, _without_classes(source))


def negative_log_likelihood(op: Operation) -> State:
    """Read the choice of each row's class.

    A mean divides by the total weight of the batch, so it must be a count.
    """
    source = _scores(op)
    result = _without_classes(source)
    weights, reduction = op.saved("weight"), op.saved("reduction")
    if reduction == MEAN:
        _check_total_weight(op, result, weights)
    elif weights is not None:
        op.add_constants(weights)
    return _reduced(reduction, source, result)


def _scores(op: Operation) -> Records:
    source = op.records.unshifted()
    if source.dim != 0 or len(source.shape) < 2:
        raise NotPerRecordError(f"{op.name} uses the dimension of samples as classes")
    return source.with_target()


def connectionist(op: Operation) -> State:
    """Read the loss of label sequences: [T, B, C] to [B]."""
    source = op.records.unshifted().with_target()
    if source.dim != 1 or source.repeats != 1 or len(source.shape) != 3:
        raise NotPerRecordError(
            f"{op.name} uses the dimension of samples as steps or classes"
        )
    return source._replace(shape=op.shape, dim=0)


def _without_classes(source: Records) -> Records:
    shape = source.shape[:1] + source.shape[2:]
    return source._replace(shape=shape)


def _reduced(reduction: int, source: Records, result: Records) -> State:
    if reduction == NONE:
        return result
    return Reduced(reduction == MEAN, {} if reduction == MEAN else result.counts())


def _same_for_all(op: Operation, source: Records, weights: Tensor) -> Tensor:
    """Return the weights of one record, equal for all records.

    Raises:
        NotPerRecordError: the records have different weights.
    """
    missing = len(source.shape) - weights.dim()
    if missing > source.dim or weights.shape[source.dim - missing] == 1:
        return weights
    rows = weights.transpose(0, source.dim - missing)
    if not bool((rows == rows[:1]).all()):
        raise NotPerRecordError(f"{op.name} gives the samples different weights")
    return rows[0]


def _check_total_weight(op: Operation, rows: Records, weights: Tensor | None) -> None:
    """Raise MixedLossError if a mean does not divide by the number of its targets."""
    target, ignored = op.saved("target"), _signed(op.saved("ignore_index"))
    total: Any = op.saved("total_weight")
    failed = partial(_raise_mixed, total, target, weights, rows)
    late = runs_behind(target)
    is_count: Any  # a bool, or a tensor of one
    if target.numel() < LARGEST_EXACT.get(total.dtype, 0):
        is_count = (total if late else float(total)) == target.numel()
    else:
        is_count = (target != ignored).all() & (weights is None)
    if weights is None and (late or not is_count):
        is_count = is_count | _equally_many(target, ignored, rows.size)
    if late:
        op.notes.add_late(LateCondition(LateFlag(is_count), failed))
    elif not is_count:
        failed()


def _raise_mixed(
    total: Tensor, target: Tensor, weights: Tensor | None, rows: Records
) -> str:
    cause = (
        "classes have weights"
        if weights is not None
        else ("some targets are ignore_index")
    )
    raise MixedLossError(
        f"the loss of {rows.size} samples is divided by the total weight of the batch, "
        f"{float(total):g} for {target.numel()} targets, since {cause}: each sample "
        'then changes the gradients of all others. Use reduction="none", and compute '
        "the mean with dpsgd_explorer.dp.per_sample_mean(losses, mask)."
    )


def _equally_many(target: Tensor, ignored: int, size: int) -> Tensor:
    """Return whether all samples have the same number of targets that count.

    Then the mean over all targets is the mean over samples of their means.
    """
    counts = (target.reshape(size, -1) != ignored).sum(1)
    return (counts == counts[0]).all() & (counts[0] > 0)


def _signed(index: int) -> int:
    """Return an index that autograd shows as an unsigned number."""
    return index - 2**64 if index >= 2**63 else index

"""Tensors of unknown origin that a loss adds: a target, or a number.

Autograd stores no term of a sum, so ``x + 1e-6`` and ``x + statistic`` look alike.  The
first such tensor may be a target, as in ``(outputs - targets).abs()``.  A further one
must be a number: where autograd stores the values before and after the sum, their
difference shows it, and it must be the same in every batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.graph import Node

from dpsgd_explorer.dp.checks.loss.operation import Operation
from dpsgd_explorer.dp.checks.loss.states import Records

#: Round-off of a few operations, in units of the last place.
NOISE = 64
#: Deepest sum whose values are computed again, in operations.
DEEPEST_SUM = 8

_Value = Callable[[Any], Tensor]
#: Name of a node: its value, from the tensors that it stored.
_STORED: dict[str, _Value] = {
    "PowBackward0": lambda node: node._saved_self**node._saved_exponent,
    "AbsBackward0": lambda node: node._saved_self.abs(),
    "CoshBackward0": lambda node: node._saved_self.cosh(),
    "SqrtBackward0": lambda node: node._saved_result,
    "ExpBackward0": lambda node: node._saved_result,
    "NormBackward1": lambda node: node._saved_result,
    "LinalgVectorNormBackward0": lambda node: node._saved_result,
    "NllLossBackward0": lambda node: F.nll_loss(
        node._saved_self, node._saved_target, node._saved_weight, reduction="none"
    ),
}


def settled(op: Operation) -> Records:
    """Return the input of a nonlinear function, with what was added accounted for.

    Raises:
        NotPerRecordError: a tensor was added that may be a statistic of the batch.
    """
    source = op.records
    if source.shifted == 1:
        if not source.targeted:
            source = source.with_target()._replace(shifted=0)
        elif (added := _added(op.node)) is not None:
            op.notes.add_range(*added)
            source = source._replace(shifted=0)
    return source.unshifted()


def _added(node: Node) -> tuple[float, float] | None:
    """Return the least and largest number that was added; None if it is no number."""
    total = _input_of(node)
    source = node.next_functions[0][0]
    terms = None if source is None or total is None else _terms(source, DEEPEST_SUM)
    if total is None or terms is None or terms.shape != total.shape:
        return None
    return number_between(total.detach(), terms.detach())


def number_between(total: Tensor, terms: Tensor) -> tuple[float, float] | None:
    """Return the least and largest number by which two tensors may differ.

    None if they differ by more than one number.
    """
    difference = total.double() - terms.double()
    if not difference.numel() or not bool(difference.isfinite().all()):
        return None
    scale = float(torch.maximum(total.abs().max(), terms.abs().max()))
    noise = NOISE * torch.finfo(total.dtype).eps * scale
    least, largest = float(difference.min()), float(difference.max())
    if largest - least > 2 * noise:
        return None
    return largest - noise, least + noise


def _input_of(node: Any) -> Tensor | None:
    """Return the input of a function of one tensor, if the node stored it."""
    if node.name() == "SqrtBackward0":
        result: Tensor = node._saved_result
        return result.square()
    stored = getattr(node, "_saved_self", None)
    return stored if isinstance(stored, Tensor) else None


def _terms(node: Any, depth: int) -> Tensor | None:
    """Return the sum of the terms that autograd knows; None if one has no value."""
    name = node.name()
    if name in _STORED:
        return _STORED[name](node).detach()
    if not depth or name not in ("AddBackward0", "SubBackward0"):
        return None
    signs = (1, -node._saved_alpha if name.startswith("Sub") else node._saved_alpha)
    known: Tensor | None = None
    for sign, (source, _) in zip(signs, node.next_functions, strict=True):
        if source is None:
            continue
        term = _terms(source, depth - 1)
        if term is None:
            return None
        known = sign * term if known is None else known + sign * term
    return known

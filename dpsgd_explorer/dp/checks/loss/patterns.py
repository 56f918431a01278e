"""Patterns of operations that show the meaning of a tensor of unknown origin.

A tensor without a gradient may be a target, a weight, a mask or a statistic of the
batch.  Some patterns of operations allow only one of these meanings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.graph import Node

from dpsgd_explorer.dp.checks.loss import autograd_nodes as nodes
from dpsgd_explorer.dp.checks.loss.autograd_nodes import (
    GraphView,
    saved_value,
    signed,
)

#: Largest round-off of a few operations, in units of the last place.
MAX_ROUND_OFF_ULPS = 64
#: Maximum depth of nested sums that are computed again; it bounds the time.
MAX_SUM_DEPTH = 8
#: Names of the nodes that ``targets_of`` reads.
MAY_SHOW_TARGETS = (nodes.ADD, nodes.SUBTRACT, nodes.DIVIDE)


def _factor_of(view: GraphView, product: int) -> Tensor | None:
    """Returns the one factor of a product that requires no gradient, or None."""
    (first, _), (second, _) = view.sources(product)
    if (first is None) == (second is None):
        return None
    return view.tensor(product, "self" if first is None else "other")


def targets_of(view: GraphView, operation: Node, __: None) -> tuple[int, ...]:
    """Returns the numbers of nodes whose factor or condition is a target.

    | operation | target y |
    |---|---|
    | a y + b (1 - y) | probability of one of two classes |
    | where(y, a, 0) + where(not y, 0, b) | one of two classes |
    | where(y, max(margin - x, 0), 0) + where(not y, 0, x) | class, and the margin |
    | x - y log(x + number) | a count (Poisson loss) |
    | quotient of two sums, see ``_overlap`` | a mask |
    """
    name, node = operation.name(), view.number(operation)
    (first, _), (second, _) = view.sources(node)
    if first is None or second is None:
        return ()
    if name == nodes.DIVIDE:
        overlap = _overlap(view, node)
        return () if overlap is None else overlap.targets
    names = view.name(first), view.name(second)
    if names == (nodes.MULTIPLY, nodes.MULTIPLY):
        return (first, second) if _are_two_probabilities(view, first, second) else ()
    if names == (nodes.CHOOSE, nodes.CHOOSE):
        return _pair(view, first, second)
    if name == nodes.SUBTRACT and names[1] == nodes.MULTIPLY:
        return (second,) if _is_poisson(view, first, second) else ()
    return ()


def _are_two_probabilities(view: GraphView, first: int, second: int) -> bool:
    y, rest = _factor_of(view, first), _factor_of(view, second)
    if y is None or rest is None or not y.dim() or y.shape != rest.shape:
        return False
    return bool((y + rest == 1).all())


def _pair(view: GraphView, first: int, second: int) -> tuple[int, ...]:
    """Returns two choices by opposite conditions, and the difference to a margin."""
    condition, opposite = (view.tensor(node, "condition") for node in (first, second))
    if not torch.equal(condition, ~opposite):
        return ()
    targets: tuple[int, ...] = first, second
    (limited, _), (x, _) = view.sources(first)[0], view.sources(second)[0]
    if limited is not None and x is not None and view.name(limited) == nodes.CLAMP_MIN:
        difference = view.sources(limited)[0][0]
        if difference is not None and view.name(difference) == nodes.SUBTRACT:
            targets += (difference,) if view.sources(difference)[1][0] == x else ()
    return targets


def _is_poisson(view: GraphView, rate: int, product: int) -> bool:
    sources = [source for source, _ in view.sources(product) if source is not None]
    if len(sources) != 1 or view.name(sources[0]) != nodes.LOG:
        return False
    inside = view.sources(sources[0])[0][0]
    if inside is None or inside == rate:
        return inside == rate
    is_sum = view.name(inside) in (nodes.ADD, nodes.ADD_NUMBER)
    return is_sum and view.sources(inside)[0][0] == rate


# Numbers that a loss adds.


def adds_number(view: GraphView, operation: Node, _: None) -> bool:
    """Returns True if only a number was added to a function's input, and notes it.

    Where autograd stores the values before and after a sum, their difference is the
    added term.
    """
    node = view.number(operation)
    total, source = _input_of(view, node), view.sources(node)[0][0]
    if source is None or total is None:
        return False
    terms = _terms(view, source, MAX_SUM_DEPTH)
    return terms is not None and _note_number(view, total, terms)


def adds_numbers_to_overlap(view: GraphView, operation: Node, _: None) -> bool:
    """Returns True if only numbers were added to a quotient, and notes the numbers.

    Only the quotients of ``_overlap`` may contain added numbers.  For other quotients
    the result is True.
    """
    overlap = _overlap(view, view.number(operation))
    if overlap is None:
        return True
    top, bottom = saved_value(operation, "self"), saved_value(operation, "other")
    return _note_number(view, top, overlap.numerator) and _note_number(
        view, bottom, overlap.denominator
    )


def _note_number(view: GraphView, total: Tensor, terms: Tensor) -> bool:
    added = _number_between(total, terms)
    if added is not None:
        view.ranges.append(added)
    return added is not None


def _number_between(total: Tensor, terms: Tensor) -> tuple[float, float] | None:
    """Returns bounds on the number that was added to all entries of ``terms``.

    Returns:
        (lower, upper), with the round-off of ``total``; None if more than a number was
        added.
    """
    if total.shape != terms.shape:
        return None
    total, terms = total.detach(), terms.detach()
    difference = total.double() - terms.double()
    if not difference.numel() or not bool(difference.isfinite().all()):
        return None
    scale = float(torch.maximum(total.abs().max(), terms.abs().max()))
    round_off = MAX_ROUND_OFF_ULPS * torch.finfo(total.dtype).eps * scale
    least, largest = float(difference.min()), float(difference.max())
    if largest - least > 2 * round_off:
        return None
    return largest - round_off, least + round_off


def are_proportional(_: GraphView, operation: Node, __: None) -> bool:
    """Returns True if one input is a multiple of the other, up to round-off."""
    first: Tensor = saved_value(operation, "self")
    x = first.double().flatten()
    y = saved_value(operation, "other").double().flatten()
    squared_norm = x.dot(x)
    if not squared_norm:
        return not bool(y.any())
    rest = y - x * (y.dot(x) / squared_norm)
    eps = torch.finfo(first.dtype).eps
    return bool(rest.norm() <= MAX_ROUND_OFF_ULPS * eps * y.norm())


def _likelihood(view: GraphView, node: int) -> Tensor:
    scores, targets = view.tensor(node, "self"), view.tensor(node, "target")
    weights = view.tensor(node, "weight")
    return F.nll_loss(scores, targets, weights, reduction="none")


_Result = Callable[[GraphView, int], Tensor]
#: {node's name: function that computes its result from its saved tensors}.
_RESULTS: dict[str, _Result] = {
    nodes.POWER: lambda view, node: (
        view.tensor(node, "self") ** view.saved(node, "exponent")
    ),
    nodes.ABSOLUTE: lambda view, node: view.tensor(node, "self").abs(),
    nodes.COSH: lambda view, node: view.tensor(node, "self").cosh(),
    nodes.LIKELIHOOD: _likelihood,
    **dict.fromkeys(
        (nodes.SQUARE_ROOT, nodes.EXP, *nodes.NORMS),
        lambda view, node: view.tensor(node, "result"),
    ),
}


def _input_of(view: GraphView, node: int) -> Tensor | None:
    """Returns the input of a function of one tensor, if the node saved it."""
    if view.name(node) == nodes.SQUARE_ROOT:
        return view.tensor(node, "result").square()
    return view.tensor(node, "self") if "self" in view.values(node) else None


def _terms(view: GraphView, node: int, depth: int) -> Tensor | None:
    """Returns the sum of the terms that autograd saved; None if a term is missing."""
    name = view.name(node)
    if name in _RESULTS:
        return _RESULTS[name](view, node).detach()
    if not depth or name not in (nodes.ADD, nodes.SUBTRACT):
        return None
    alpha = view.saved(node, "alpha")
    signs = (1, -alpha if name == nodes.SUBTRACT else alpha)
    total: Tensor | None = None
    for sign, (source, _) in zip(signs, view.sources(node), strict=True):
        if source is None:
            continue
        term = _terms(view, source, depth - 1)
        if term is None:
            return None
        total = sign * term if total is None else total + sign * term
    return total


# The overlap of a prediction and a target, as a quotient: the Dice loss.


class Overlap(NamedTuple):
    """A division that may be the quotient of a Dice loss.

    Attributes:
        targets: Numbers of the nodes with a target: the product, and all sums.
        numerator: The numerator without the added number.
        denominator: The denominator without the added number.
    """

    targets: tuple[int, ...]
    numerator: Tensor
    denominator: Tensor


class _Part(NamedTuple):
    """The numerator or denominator of a quotient.

    Attributes:
        node: Number of the node that computes the summed elements.
        total: Number of the node that sums over the elements of each sample.
        factor: Constant factor of the sum.
        sums: Numbers of the nodes that add a tensor of unknown origin.
    """

    node: int
    total: int
    factor: Tensor | float
    sums: list[int]


def _overlap(view: GraphView, division: int) -> Overlap | None:
    """Returns the parts of the quotient of a Dice loss; None for another division.

    With the probabilities p and a mask y of zeros and ones, and sums over the elements
    of each sample, the quotient is

        (2 Σ p y + s) / (Σ p + Σ y + s).

    Autograd saves no term of a sum, so the sums are computed again from p and y.  The
    rest s must be one number for all samples and batches.
    """
    above, below = (_part(view, source) for source, _ in view.sources(division))
    if above is None or below is None or view.name(above.node) != nodes.MULTIPLY:
        return None
    mask, p = _mask(view, above.node), _probabilities(view, above.node)
    if mask is None or p is None:
        return None
    summed, sums = below.node, below.sums
    if _is_constant_sum(view, summed):
        sums = [*sums, summed]
        summed = view.source(summed)
    squares = _is_square(view, summed)
    if squares:
        summed = view.source(summed)
    if summed != view.source(above.node):
        return None
    p = p.reshape(mask.shape)
    both = (p.square() if squares else p) + mask
    return Overlap(
        (above.node, *above.sums, *sums),
        above.factor * _summed(view, above.total, p * mask),
        below.factor * _summed(view, below.total, both),
    )


def _part(view: GraphView, node: int | None) -> _Part | None:
    """Returns the parts of a numerator or denominator; None for another operation."""
    factor: Tensor | float = 1.0
    sums: list[int] = []
    while node is not None and view.name(node) != nodes.SUM:
        if _is_constant_sum(view, node):
            sums.append(node)
        elif view.name(node) == nodes.MULTIPLY:
            number = _factor_of(view, node)
            if number is None or number.dim():
                return None
            factor = factor * number.detach()
        else:
            return None
        node = view.source(node)
    inner = None if node is None else view.sources(node)[0][0]
    return None if node is None or inner is None else _Part(inner, node, factor, sums)


def _is_constant_sum(view: GraphView, node: int) -> bool:
    if view.name(node) != nodes.ADD:
        return False
    sources = [source for source, _ in view.sources(node)]
    return sources.count(None) == 1 and bool(view.saved(node, "alpha") == 1)


def _is_square(view: GraphView, node: int) -> bool:
    if view.name(node) == nodes.POWER:
        return bool(view.saved(node, "exponent") == 2)
    sources = [source for source, _ in view.sources(node)]
    return view.name(node) == nodes.MULTIPLY and sources[0] == sources[1]


def _mask(view: GraphView, product: int) -> Tensor | None:
    """Returns the constant factor of a product, if all its entries are 0 or 1."""
    mask = _factor_of(view, product)
    if mask is None or not mask.dim() or not bool(((mask == 0) | (mask == 1)).all()):
        return None
    return mask.detach()


def _probabilities(view: GraphView, product: int) -> Tensor | None:
    """Returns the probabilities in a product, if they have the size of the mask."""
    node = view.source(product)
    while view.name(node) in nodes.VIEWS:
        node = view.source(node)
    if view.name(node) not in nodes.PROBABILITIES:
        return None
    mask, result = _factor_of(view, product), view.tensor(node, "result").detach()
    return result if mask is not None and mask.numel() == result.numel() else None


def _summed(view: GraphView, total: int, values: Tensor) -> Tensor:
    dims = [signed(dim) for dim in view.saved(total, "dim")]
    return values.sum(dims, keepdim=view.saved(total, "keepdim"))

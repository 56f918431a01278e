"""Patterns of operations that show the meaning of a tensor of unknown origin.

A tensor without a gradient may be a target, a weight, a mask or a statistic of the
batch.  Some losses have a form in which only one meaning is possible.
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

#: Round-off of a few operations, in units of the last place.
MAX_ROUND_OFF_ULPS = 64
#: Number of nested sums whose values are computed again.
MAX_SUM_DEPTH = 8
#: Names of the nodes for which ``targets_of`` may find targets.
MAY_SHOW_TARGETS = (nodes.ADD, nodes.SUBTRACT, nodes.DIVIDE)


def _factor_of(view: GraphView, product: int) -> Tensor | None:
    """Returns the one factor of a product that requires no gradient, or None."""
    (first, _), (second, _) = view.sources(product)
    if (first is None) == (second is None):
        return None
    return view.tensor(product, "self" if first is None else "other")


def targets_of(view: GraphView, operation: Node, __: None) -> tuple[int, ...]:
    """Returns the terms of a sum whose factors or conditions are targets.

    | sum | target y |
    |---|---|
    | a y + b (1 - y) | the chance of one of two classes |
    | a where y, else 0, plus b where not y, else 0 | the class of a pair |
    | the same of max(margin - x, 0) and x | the class, and the margin |
    | x - y log(x + number) | a count, of Poisson's law |
    | the quotient of two sums, see ``_overlap`` | a mask |
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
        return (first, second) if _are_two_chances(view, first, second) else ()
    if names == (nodes.CHOOSE, nodes.CHOOSE):
        return _pair(view, first, second)
    if name == nodes.SUBTRACT and names[1] == nodes.MULTIPLY:
        return (second,) if _is_poisson(view, first, second) else ()
    return ()


def _are_two_chances(view: GraphView, first: int, second: int) -> bool:
    one, other = _factor_of(view, first), _factor_of(view, second)
    if one is None or other is None or not one.dim() or one.shape != other.shape:
        return False
    return bool((one + other == 1).all())


def _pair(view: GraphView, first: int, second: int) -> tuple[int, ...]:
    """Returns two choices by opposite conditions, and the difference of a margin."""
    one, other = view.tensor(first, "condition"), view.tensor(second, "condition")
    if not torch.equal(one, ~other):
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
    """Returns whether only a number was added to a function's input, and notes it.

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
    """Returns whether only numbers were added to a share of overlap, and notes them.

    Any other division is no share, so nothing was added.
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
    """Returns the least and largest number by which two tensors may differ.

    Returns:
        None if the tensors differ by more than one number.
    """
    if total.shape != terms.shape:
        return None
    total, terms = total.detach(), terms.detach()
    difference = total.double() - terms.double()
    if not difference.numel() or not bool(difference.isfinite().all()):
        return None
    scale = float(torch.maximum(total.abs().max(), terms.abs().max()))
    noise = MAX_ROUND_OFF_ULPS * torch.finfo(total.dtype).eps * scale
    least, largest = float(difference.min()), float(difference.max())
    if largest - least > 2 * noise:
        return None
    return largest - noise, least + noise


def are_proportional(_: GraphView, operation: Node, __: None) -> bool:
    """Returns whether one input is a multiple of the other, up to round-off."""
    first: Tensor = saved_value(operation, "self")
    one, other = first.double().flatten(), saved_value(operation, "other")
    other = other.double().flatten()
    size = one.dot(one)
    if not size:
        return not bool(other.any())
    rest = other - one * (other.dot(one) / size)
    eps = torch.finfo(first.dtype).eps
    return bool(rest.norm() <= MAX_ROUND_OFF_ULPS * eps * other.norm())


def _likelihood(view: GraphView, node: int) -> Tensor:
    scores, targets = view.tensor(node, "self"), view.tensor(node, "target")
    weights = view.tensor(node, "weight")
    return F.nll_loss(scores, targets, weights, reduction="none")


_Result = Callable[[GraphView, int], Tensor]
#: {node's name: its result, from the tensors that it stored}.
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
    """Returns the input of a function of one tensor, if the node stored it."""
    if view.name(node) == nodes.SQUARE_ROOT:
        return view.tensor(node, "result").square()
    return view.tensor(node, "self") if "self" in view.values(node) else None


def _terms(view: GraphView, node: int, depth: int) -> Tensor | None:
    """Returns the sum of the terms that autograd stores; None if one is missing."""
    name = view.name(node)
    if name in _RESULTS:
        return _RESULTS[name](view, node).detach()
    if not depth or name not in (nodes.ADD, nodes.SUBTRACT):
        return None
    alpha = view.saved(node, "alpha")
    signs = (1, -alpha if name == nodes.SUBTRACT else alpha)
    known: Tensor | None = None
    for sign, (source, _) in zip(signs, view.sources(node), strict=True):
        if source is None:
            continue
        term = _terms(view, source, depth - 1)
        if term is None:
            return None
        known = sign * term if known is None else known + sign * term
    return known


# The share of a prediction that overlaps its target, as in Dice's loss.


class Overlap(NamedTuple):
    """A division that may be a share of overlap.

    Attributes:
        targets: The operations with a target: the product, and all sums.
        numerator: The numerator without its number.
        denominator: The denominator without its number.
    """

    targets: tuple[int, ...]
    numerator: Tensor
    denominator: Tensor


class _Part(NamedTuple):
    """A sum over the elements of each sample, without the terms added to it."""

    node: int
    total: int
    factor: Tensor | float
    sums: list[int]


def _overlap(view: GraphView, division: int) -> Overlap | None:
    """Returns the parts of a share of overlap; None for another division.

    With chances p and a mask y of 0 and 1 for each sample, in sums over the sample's
    elements:

        (2 Σ p y + s) / (Σ p + Σ y + s)

    Autograd stores no term of a sum, so the sums are computed again from p and y: the
    rest of numerator and denominator must be one number for all samples and batches.
    """
    above, below = (_part(view, source) for source, _ in view.sources(division))
    if above is None or below is None or view.name(above.node) != nodes.MULTIPLY:
        return None
    mask, p = _mask(view, above.node), _chances(view, above.node)
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
    """Returns the sum, factor and added terms of a numerator or denominator."""
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
    """Returns the other factor of the chances, if all its entries are 0 or 1."""
    mask = _factor_of(view, product)
    if mask is None or not mask.dim() or not bool(((mask == 0) | (mask == 1)).all()):
        return None
    return mask.detach()


def _chances(view: GraphView, product: int) -> Tensor | None:
    """Returns the chances in a product, if they have as many elements as the mask."""
    node = view.source(product)
    while view.name(node) in nodes.VIEWS:
        node = view.source(node)
    if view.name(node) not in nodes.CHANCES:
        return None
    mask, result = _factor_of(view, product), view.tensor(node, "result").detach()
    return result if mask is not None and mask.numel() == result.numel() else None


def _summed(view: GraphView, total: int, values: Tensor) -> Tensor:
    dims = [signed(dim) for dim in view.saved(total, "dim")]
    return values.sum(dims, keepdim=view.saved(total, "keepdim"))

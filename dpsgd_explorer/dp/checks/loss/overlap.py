"""The share of a prediction that overlaps its target, as in Dice's loss.

With chances p and a mask y of 0 and 1 for each record, in sums over its own elements:

    (2 Σ p y + s) / (Σ p + Σ y + s)

Autograd stores no term of a sum, so the sums are computed again from p and y: what is
left of numerator and denominator must be one number for all records and batches.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor
from torch.autograd.graph import Node

ADD, MULTIPLY, SUM, POWER = (
    "AddBackward0",
    "MulBackward0",
    "SumBackward1",
    "PowBackward0",
)
CHANCES = ("SigmoidBackward0", "SoftmaxBackward0")
VIEWS = ("ViewBackward0", "UnsafeViewBackward0", "ReshapeAliasBackward0")


class Overlap(NamedTuple):
    """A division that may be such a share.

    Attributes:
        targets: The operations with a target: the product, and all sums.
        numerator: The numerator without its number.
        denominator: The denominator without its number.
    """

    targets: list[Node]
    numerator: Tensor
    denominator: Tensor


class _Part(NamedTuple):
    """A sum over the elements of each record, without what is added to it."""

    node: Node
    total: Any
    factor: Tensor | float
    sums: list[Node]


def overlap_of(division: Node) -> Overlap | None:
    """Return the parts of a share of overlap; None if the operation is another one."""
    (top, _), (bottom, _) = division.next_functions
    above, below = _part(top), _part(bottom)
    if above is None or below is None or above.node.name() != MULTIPLY:
        return None
    mask, chances = _mask(above.node), _chances(above.node)
    if mask is None or chances is None:
        return None
    source, inner = chances
    p = source._saved_result.detach().reshape(mask.shape)
    summed, sums = below.node, below.sums
    if summed.name() == ADD and _is_constant_sum(summed):
        sums = [*sums, summed]
        summed = _only(summed)
    squares = _is_square(summed)
    if squares:
        summed = _only(summed)
    if summed is not inner:
        return None
    both = (p.square() if squares else p) + mask
    return Overlap(
        [above.node, *above.sums, *sums],
        above.factor * _summed(above.total, p * mask),
        below.factor * _summed(below.total, both),
    )


def _part(node: Node | None) -> _Part | None:
    """Return what is summed, scaled and added to before the node."""
    factor: Tensor | float = 1.0
    sums: list[Node] = []
    while node is not None and node.name() != SUM:
        if node.name() == ADD and _is_constant_sum(node):
            sums.append(node)
        elif node.name() == MULTIPLY and (number := _number(node)) is not None:
            factor = factor * number
        else:
            return None
        node = _only(node)
    inner = None if node is None else node.next_functions[0][0]
    return None if node is None or inner is None else _Part(inner, node, factor, sums)


def _is_constant_sum(node: Any) -> bool:
    sources = [source for source, _ in node.next_functions]
    return sources.count(None) == 1 and node._saved_alpha == 1


def _is_square(node: Any) -> bool:
    if node.name() == POWER:
        return bool(node._saved_exponent == 2)
    sources = [source for source, _ in node.next_functions]
    return node.name() == MULTIPLY and sources[0] is sources[1]


def _only(node: Node) -> Node:
    """Return the one input that needs a gradient."""
    return next(source for source, _ in node.next_functions if source is not None)


def _constant(node: Any) -> Tensor | None:
    """Return the factor that needs no gradient."""
    first, second = (source for source, _ in node.next_functions)
    if (first is None) == (second is None):
        return None
    factor: Tensor | None = node._saved_self if first is None else node._saved_other
    return factor


def _number(node: Node) -> Tensor | None:
    factor = _constant(node)
    return None if factor is None or factor.dim() else factor.detach()


def _mask(product: Node) -> Tensor | None:
    """Return the other factor of the chances, if all its entries are 0 or 1."""
    mask = _constant(product)
    if mask is None or not mask.dim() or not bool(((mask == 0) | (mask == 1)).all()):
        return None
    return mask.detach()


def _chances(product: Node) -> tuple[Any, Node] | None:
    """Return the node that computed the chances, and the one that viewed them last."""
    inner = node = _only(product)
    while node.name() in VIEWS:
        node = _only(node)
    if node.name() not in CHANCES:
        return None
    mask = _constant(product)
    result: Tensor = node._saved_result  # type: ignore[attr-defined]
    same = mask is not None and mask.numel() == result.numel()
    return (node, inner) if same else None


def _summed(total: Any, values: Tensor) -> Tensor:
    dims = [d - 2**64 if d >= 2**63 else d for d in total._saved_dim]
    return values.sum(dims, keepdim=total._saved_keepdim)

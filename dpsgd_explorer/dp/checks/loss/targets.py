"""Tensors of unknown origin that are targets by the form of the loss around them."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.graph import Node

from dpsgd_explorer.dp.checks.loss.overlap import overlap_of

MULTIPLY, CHOOSE, LOG = "MulBackward0", "WhereBackward0", "LogBackward0"
DIVIDE = "DivBackward0"
SUMS = ("AddBackward0", "SubBackward0")
#: Most operations before an output that are searched for a loss.
FARTHEST = 8
LOSSES = (
    "NllLoss", "MseLoss", "BinaryCrossEntropy", "SmoothL1Loss", "HuberLoss",
    "SoftMarginLoss", "MultiMarginLoss", "MultilabelMarginLoss", "CtcLoss",
)  # fmt: skip


def targets_of(node: Node) -> list[Node]:
    """Return the terms of a sum whose factors or conditions are targets.

    | sum | target y |
    |---|---|
    | a y + b (1 - y) | the chance of one of two classes |
    | a where y, else 0, plus b where not y, else 0 | the class of a pair |
    | the same of max(margin - x, 0) and x | the class, and the margin |
    | x - y log(x + number) | a count, of Poisson's law |
    | the quotient of two sums, see ``overlap`` | a mask |
    """
    if node.name() == DIVIDE:
        overlap = overlap_of(node)
        return [] if overlap is None else overlap.targets
    if node.name() not in SUMS:
        return []
    (first, _), (second, _) = node.next_functions
    if first is None or second is None:
        return []
    names = first.name(), second.name()
    if names == (MULTIPLY, MULTIPLY):
        one, other = _factor(first), _factor(second)
        if one is None or other is None or one.shape != other.shape:
            return []
        return [first, second] if bool((one + other == 1).all()) else []
    if names == (CHOOSE, CHOOSE):
        one, other = _condition(first), _condition(second)
        pair = [first, second] if torch.equal(one, ~other) else []
        return [*pair, *_margins(first, second)] if pair else []
    if names[1] == MULTIPLY and node.name() == SUMS[1]:
        return [second] if _is_poisson(first, second) else []
    return []


def _factor(node: Any) -> torch.Tensor | None:
    """Return the one factor that needs no gradient."""
    sources = [source for source, _ in node.next_functions]
    if sources.count(None) != 1:
        return None
    factor = node._saved_self if sources[0] is None else node._saved_other
    return factor if isinstance(factor, torch.Tensor) and factor.dim() else None


def _condition(node: Any) -> torch.Tensor:
    condition: torch.Tensor = node._saved_condition
    return condition


def _margins(first: Node, second: Node) -> list[Node]:
    """Return the difference of a margin and x, in max(margin - x, 0) or else x."""
    one, other = _chosen(first), _chosen(second)
    if one is None or other is None or one.name() != "ClampMinBackward0":
        return []
    difference = one.next_functions[0][0]
    if difference is None or difference.name() != SUMS[1]:
        return []
    return [difference] if difference.next_functions[1][0] is other else []


def _chosen(node: Node) -> Node | None:
    """Return the one tensor that a condition chooses or leaves out."""
    return node.next_functions[0][0]


def _is_poisson(rate: Node, product: Node) -> bool:
    sources = [source for source, _ in product.next_functions if source is not None]
    if len(sources) != 1 or sources[0].name() != LOG:
        return False
    inside = sources[0].next_functions[0][0]
    return inside is not None and (
        inside is rate
        or (inside.name() == "AddBackward1" and inside.next_functions[0][0] is rate)
        or (inside.name() == SUMS[0] and inside.next_functions[0][0] is rate)
    )


def holds_loss(node: Node) -> bool:
    """Whether an output of a module is a loss, or computed from one."""
    seen, waiting = {node}, [node]
    for each in waiting:
        if each.name().startswith(LOSSES):
            return True
        if len(seen) < FARTHEST:
            sources = {n for n, _ in each.next_functions if n is not None} - seen
            seen |= sources
            waiting += sources
    return False

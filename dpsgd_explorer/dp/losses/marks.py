"""Marks on the nodes of autograd's graph: where a module ends, and where a loss is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from torch import Tensor
from torch.autograd.graph import Node

from dpsgd_explorer.dp.losses.reading import UNREAD, LossReading
from dpsgd_explorer.dp.losses.states import Shape
from dpsgd_explorer.dp.modules.pytree import tensors_of

OUTPUTS, MEAN = "dpsgd_explorer.outputs", "dpsgd_explorer.per_sample_mean"


@dataclass(eq=False)
class ModulePass:
    """One recorded forward pass of a module, until its backward.

    Attributes:
        size: Records, B.
        loss_reduction: How the user's loss is expected to join them.
        user_loss_scale: Called for what the user's losses are multiplied with.
        reading: What was read in the graph of the loss.
    """

    size: int
    loss_reduction: str
    user_loss_scale: Callable[[], float]
    reading: LossReading = UNREAD


@dataclass(frozen=True)
class Outputs:
    """Marks a node whose results are outputs of a module.

    Attributes:
        module_pass: The pass.
        shapes: {number of the result: its shape}.
    """

    module_pass: ModulePass
    shapes: dict[int, Shape] = field(default_factory=dict)


def mark_outputs(outputs: Any, module_pass: ModulePass) -> None:
    """Mark the outputs of a pass that have one row a sample, and its scalars."""
    for leaf in tensors_of(outputs):
        node, shape = leaf.grad_fn, tuple(leaf.shape)
        if node is None or (shape and shape[0] != module_pass.size):
            continue
        mark = outputs_at(node)
        if mark is None or mark.module_pass is not module_pass:
            mark = _metadata(node)[OUTPUTS] = Outputs(module_pass)
        mark.shapes[leaf.output_nr] = shape


def mark_mean(loss: Tensor, losses: Tensor) -> None:
    """Mark a loss as the mean over samples of losses [B, ...]."""
    if loss.grad_fn is not None and losses.grad_fn is not None:
        _metadata(loss.grad_fn)[MEAN] = losses.grad_fn, losses.output_nr


def outputs_at(node: Node) -> Outputs | None:
    """Return which outputs of a module a node's results are."""
    return _metadata(node).get(OUTPUTS)


def mean_at(node: Node) -> tuple[Node, int] | None:
    """Return node and number of the losses whose mean over samples a node makes."""
    return _metadata(node).get(MEAN)


def _metadata(node: Node) -> dict[str, Any]:
    metadata: Any = node.metadata  # a dict, though its stub says a method
    return cast("dict[str, Any]", metadata)

"""The outputs of a forward pass: marks on their nodes, and a check of their hooks.

A mark is an entry in a node's metadata, which exists as long as the graph.  The outputs
of a module, per-sample means and the linear losses of the safety check are marked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, cast

from torch import Tensor
from torch.autograd.graph import Node

from dpsgd_explorer.dp.checks.loss.reading import UNREAD, LossReading
from dpsgd_explorer.dp.distributed.fabric import is_hook_of_fabric
from dpsgd_explorer.dp.modules.pytree import tensors_of
from dpsgd_explorer.errors import PrivacyError

#: Keys of the marks in the metadata of a node.
OUTPUTS, MEAN = "dpsgd_explorer.outputs", "dpsgd_explorer.per_sample_mean"
LINEAR = "dpsgd_explorer.linear_loss"


@dataclass(eq=False)
class ModulePass:
    """One recorded forward pass of a module, until its backward.

    Attributes:
        size: Number of samples, B.
        loss_reduction: "mean" or "sum": how the user's loss combines the samples.
        user_loss_scale: Returns the factor on the user's losses, for example the scale
            of a GradScaler.
        on_failure: Called with the pass if its backward ends with an exception.
        reading: The reading of the loss's graph, set when backward begins.
        is_trained: If False, backward computes gradients for chosen tensors alone, as
            ``torch.autograd.grad`` does, and adds nothing to the step.
        is_done: If True, a backward of the pass has ended.
    """

    size: int
    loss_reduction: str
    user_loss_scale: Callable[[], float]
    on_failure: Callable[[object], None] = lambda failed: None
    reading: LossReading = UNREAD
    is_trained: bool = True
    is_done: bool = False

    def fail(self) -> None:
        """Reports that backward ended with an exception, unless another one ended."""
        if not self.is_done:
            self.on_failure(self)


@dataclass(frozen=True)
class Outputs:
    """The mark of a node with results that are outputs of a module.

    Attributes:
        module_pass: The pass that computed them.
        shapes: {number of the result: its shape}.
    """

    module_pass: ModulePass
    shapes: dict[int, tuple[int, ...]] = field(default_factory=dict)


def mark_outputs(outputs: Any, module_pass: ModulePass) -> None:
    """Marks the outputs of a pass that have one row per sample or are scalars."""
    for leaf in tensors_of(outputs):
        node, shape = leaf.grad_fn, tuple(leaf.shape)
        if node is None or (shape and shape[0] != module_pass.size):
            continue
        marks = _metadata(node)
        mark = marks.get(OUTPUTS)
        if mark is None or mark.module_pass is not module_pass:
            mark = marks[OUTPUTS] = Outputs(module_pass)
        mark.shapes[leaf.output_nr] = shape


def mark_mean(loss: Tensor, losses: Tensor) -> None:
    """Marks a loss as the mean over samples of losses ``(B, ...)``."""
    if loss.grad_fn is not None and losses.grad_fn is not None:
        _metadata(loss.grad_fn)[MEAN] = losses.grad_fn, losses.output_nr


def mark_linear(loss: Tensor) -> None:
    """Marks a loss as a linear function that the safety check computes from outputs.

    Its graph needs no reading, since training never uses this loss.
    """
    if loss.grad_fn is not None:
        _metadata(loss.grad_fn)[LINEAR] = True


def is_linear(node: Node) -> bool:
    """Returns True if the node is marked as a linear loss of the safety check."""
    return LINEAR in _metadata(node)


def outputs_at(node: Node) -> Outputs | None:
    """Returns the mark of a node that computed outputs of a module, or None."""
    return _metadata(node).get(OUTPUTS)


def mean_at(node: Node) -> tuple[Node, int] | None:
    """Returns (node, result's number) of the averaged losses of a mean, or None."""
    return _metadata(node).get(MEAN)


def _metadata(node: Node) -> dict[str, Any]:
    metadata: dict[str, Any] = node.metadata  # type: ignore[assignment]
    return metadata


class PassOutputs:
    """The hooks of the tensors that the last pass returned.

    A hook on an output sees the gradients [B, ...] of all samples and may mix them
    before any per-sample gradient is computed.  The safety check has tested hooks
    inside the module, but not a hook that is registered after the pass.

    The object stores hooks and not outputs.  An output refers to its graph, and the
    graph to the engine, through nodes that Python's garbage collector does not see: an
    engine that is discarded before a backward would never be freed.
    """

    def __init__(self) -> None:
        self._hooks: list[tuple[dict[int, Any], int]] = []

    def remember(self, output: Any) -> None:
        """Stores the hooks of an output after the engine has registered its hooks."""
        self._hooks = []
        for leaf in tensors_of(output):
            if leaf.requires_grad:
                if leaf._backward_hooks is None:
                    # The first hook creates the table that later hooks are added to.
                    leaf.register_hook(_keep).remove()  # type: ignore[no-untyped-call]
                hooks = cast("dict[int, Any]", leaf._backward_hooks)
                self._hooks.append((hooks, len(hooks)))

    def check(self) -> None:
        """Raises PrivacyError if an output has a new hook since ``remember``."""
        remembered, self._hooks = self._hooks, []
        for hooks, count in remembered:
            # A table of hooks lists them in the order of their registration.
            new = islice(hooks.values(), count, None)
            if len(hooks) < count or not all(map(is_hook_of_fabric, new)):
                raise PrivacyError(
                    "a hook was registered on an output of the module after the "
                    "forward pass; it may mix the samples' gradients, and the safety "
                    "check has not tested it. Register it inside the module's forward, "
                    "or remove it. If a library has wrapped the module and registers "
                    "the hook, pass the wrapped module to PrivacyEngine."
                )


def _keep(gradient: Tensor) -> None:
    """Leaves the gradient unchanged."""

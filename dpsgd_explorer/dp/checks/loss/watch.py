"""Reads the graph of every loss before its backward begins.

Autograd's graph leads from a loss to the module's outputs, never the other way, so the
loss itself is needed.  Every backward that Python begins goes through
``Variable._execution_engine``; while an engine is attached, that is replaced by one
that reads the graph first.  A backward that goes past it leaves its loss unread, hence
unchecked: no epsilon.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from torch import Tensor
from torch.autograd import Variable

from dpsgd_explorer.dp.backends.triton.asynchronous import LateFlag, runs_behind
from dpsgd_explorer.dp.checks.loss.graph import Edge, Reader, passes_of
from dpsgd_explorer.dp.checks.loss.marks import ModulePass
from dpsgd_explorer.dp.checks.loss.reading import LateCondition, LossReading
from dpsgd_explorer.errors import ExplorerError

WAS_GIVEN = "backward was called with a gradient"
#: Errors of autograd's private attributes, on graphs that were freed or are unusual.
UNREADABLE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)
_Engine: Any = type(Variable._execution_engine)


class _ReadingEngine(_Engine):  # type: ignore[misc]
    """Torch's execution engine, which reads the loss before each run.

    Its arguments are those of torch, by position: after the gradients come keep_graph,
    create_graph and the tensors whose gradients alone are asked for.
    """

    def run_backward(
        self, roots: Any, gradients: Any, *args: Any, **kwargs: Any
    ) -> Any:
        passes = _read(roots, gradients)
        inputs = args[2] if len(args) > 2 else kwargs.get("inputs", ())
        for each in passes:
            each.is_trained = not inputs
        try:
            result = super().run_backward(roots, gradients, *args, **kwargs)
        except BaseException:
            for each in passes:
                each.fail()
            raise
        for each in passes:
            each.is_done = True
        return result


class LossWatch:
    """Replaces torch's execution engine while any PrivacyEngine is attached."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a finalizer may run while it is held
        self._watching = 0
        self._own: Any = None

    def begin(self) -> None:
        """Read losses from now on, until ``end`` has been called equally often."""
        with self._lock:
            self._watching += 1
            if self._watching == 1:
                self._own = Variable._execution_engine
                Variable._execution_engine = _ReadingEngine()

    def end(self) -> None:
        """Restore torch's engine, unless another PrivacyEngine is still attached."""
        with self._lock:
            self._watching -= 1
            if self._watching == 0:
                Variable._execution_engine = self._own


WATCH = LossWatch()


def _read(roots: Any, gradients: Any) -> Collection[ModulePass]:
    """Store the reading of a loss in the passes that it was computed from.

    Returns:
        These passes.

    Raises:
        MixedLossError: the weight of a sample depends on its batch.
    """
    edges = [edge for root in roots if (edge := _edge(root)) is not None]
    reader = Reader()
    try:
        reading = reader.read(edges)
        reading = _with_gradients(reading, [g for g in gradients if g is not None])
    except ExplorerError:
        raise
    except UNREADABLE:  # as in a second backward, of which torch raises its own error
        reading = LossReading("its graph cannot be read")
    passes = passes_of(edges) if reading.refusal else reader.passes
    for module_pass in passes:
        module_pass.reading = reading
    return passes


def _with_gradients(reading: LossReading, given: list[Tensor]) -> LossReading:
    """Return the reading of a backward with these gradients, which must be 1."""
    late = []
    for gradient in given:
        if gradient.numel() == 1 and runs_behind(gradient):
            is_one = LateFlag((gradient == 1).reshape(()))
            late.append(LateCondition(is_one, lambda: WAS_GIVEN))
        elif gradient.numel() != 1 or gradient.item() != 1:
            return LossReading(WAS_GIVEN)
    return replace(reading, late=(*reading.late, *late)) if late else reading


def _edge(root: Any) -> Edge | None:
    """Return the node and the result's number of a root, a tensor or an edge."""
    node = getattr(root, "node", None)
    if node is None:
        node = root.grad_fn
    return None if node is None else (node, root.output_nr)

"""Reads the graph of every loss before its backward begins.

Autograd's graph leads from a loss to the outputs of the module, but not from the
outputs to the loss.  The check therefore needs the loss.  Every backward that Python
begins calls ``Variable._execution_engine``.  While a PrivacyEngine is attached, this
module replaces that object by an object that reads the graph first.  If a backward
begins in another way, its loss remains unread, and the run has no epsilon.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dpsgd_explorer.dp.backends import backend_of
from dpsgd_explorer.dp.backends.asynchronous import LateFlag
from dpsgd_explorer.dp.checks.loss.autograd_nodes import (
    edge_of,
    execution_engine,
    set_execution_engine,
)
from dpsgd_explorer.dp.checks.loss.graph import outline, read
from dpsgd_explorer.dp.checks.loss.marks import ModulePass, is_linear
from dpsgd_explorer.dp.checks.loss.reading import LateCondition, LossReading
from dpsgd_explorer.errors import ExplorerError

#: Reason why a loss is rejected.
GRADIENT_WAS_PASSED = "backward was called with a gradient"
#: Errors of autograd's private attributes, if a graph is freed or unusual.
GRAPH_ERRORS = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)


class _ReadingEngine:
    """A wrapper of torch's execution engine that reads the loss before each backward.

    Torch passes the arguments of ``run_backward`` by position: losses, gradients,
    keep_graph, create_graph and ``inputs``, the tensors of ``torch.autograd.grad``.
    """

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self.queue_callback = engine.queue_callback  # called at every backward

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def run_backward(
        self, roots: Any, gradients: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """Reads the losses, then computes the gradients."""
        passes = _read(roots, gradients)
        inputs = args[2] if len(args) > 2 else kwargs.get("inputs", ())
        for module_pass in passes:
            module_pass.is_trained = not inputs
        try:
            result = self._engine.run_backward(roots, gradients, *args, **kwargs)
        except BaseException:
            for module_pass in passes:
                module_pass.fail()
            raise
        for module_pass in passes:
            module_pass.is_done = True
        return result


class LossWatch:
    """Replaces torch's execution engine while any PrivacyEngine is attached."""

    def __init__(self) -> None:
        # Reentrant: a finalizer that calls ``end`` may run while the thread holds it.
        self._lock = threading.RLock()
        self._watching = 0
        self._torch_engine: Any = None

    def begin(self) -> None:
        """Starts reading losses, until ``end`` was called once per ``begin``.

        Raises:
            PrivacyError: the installed torch has no execution engine to replace.
        """
        with self._lock:
            if not self._watching:
                self._torch_engine = execution_engine()
                set_execution_engine(_ReadingEngine(self._torch_engine))
            self._watching += 1

    def end(self) -> None:
        """Restores torch's engine, unless another PrivacyEngine is still attached."""
        with self._lock:
            self._watching -= 1
            if self._watching == 0:
                set_execution_engine(self._torch_engine)


WATCH = LossWatch()


def _read(roots: Any, gradients: Any) -> Sequence[ModulePass]:
    """Stores the reading of a loss in its module passes.

    Args:
        roots: The losses of a backward, as tensors or edges of the graph.
        gradients: The gradients that were passed to backward.

    Returns:
        The module passes whose outputs the loss was computed from.

    Raises:
        MixedLossError: the weight of a sample depends on its batch.
    """
    edges = []
    for root in roots:
        edge = edge_of(root)
        if edge is not None:
            edges.append(edge)
    if edges and all(is_linear(node) for node, _ in edges):
        return outline(edges)[1]
    try:
        reading, passes = read(edges)
        reading = _with_gradients(reading, gradients)
    except ExplorerError:
        raise
    except GRAPH_ERRORS:  # after a second backward, which torch rejects with a reason
        reading, passes = LossReading("its graph cannot be read"), outline(edges)[1]
    for module_pass in passes:
        module_pass.reading = reading
    return passes


def _with_gradients(reading: LossReading, gradients: Any) -> LossReading:
    """Returns the reading, rejected unless all gradients passed to backward are 1."""
    late: list[LateCondition] = []
    for gradient in gradients:
        if gradient is None:
            continue
        if gradient.numel() == 1 and backend_of(gradient).is_async:
            is_one = LateFlag((gradient == 1).reshape(()))
            late.append(LateCondition(is_one, lambda: GRADIENT_WAS_PASSED))
        elif gradient.numel() != 1 or gradient.item() != 1:
            return LossReading(GRADIENT_WAS_PASSED)
    return replace(reading, late=(*reading.late, *late)) if late else reading

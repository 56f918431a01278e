"""Reads the graph of every loss before its backward begins.

Autograd's graph leads from a loss to the module's outputs, never the other way, so the
loss itself is needed.  Every backward that Python begins goes through
``Variable._execution_engine``.  While an engine is attached, that object is replaced
by one that reads the graph first.  A backward that does not pass through it leaves its
loss unread, hence unchecked: no epsilon.
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


class _ReadingEngine:
    """Torch's execution engine, which reads the loss before each run.

    Its arguments are those of torch, by position: after the gradients come keep_graph,
    create_graph and the tensors to whose gradients backward is limited.
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
        self._lock = threading.RLock()  # a finalizer may run while it is held
        self._watching = 0
        self._torch_engine: Any = None

    def begin(self) -> None:
        """Reads losses from now on, until ``end`` has been called equally often.

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
    """Stores the reading of a loss in the passes from which it was computed.

    Returns:
        These passes.

    Raises:
        MixedLossError: the weight of a sample depends on its batch.
    """
    edges = []
    for root in roots:
        edge = edge_of(root)
        if edge is not None:
            edges.append(edge)
    try:
        reading, passes = read(edges)
        reading = _with_gradients(reading, gradients)
    except ExplorerError:
        raise
    except UNREADABLE:  # as in a second backward, of which torch raises its own error
        reading, passes = LossReading("its graph cannot be read"), outline(edges)[1]
    for module_pass in passes:
        module_pass.reading = reading
    return passes


def _with_gradients(reading: LossReading, gradients: Any) -> LossReading:
    """Returns the reading of a backward with these gradients, which must be 1."""
    late: list[LateCondition] = []
    for gradient in gradients:
        if gradient is None:
            continue
        if gradient.numel() == 1 and backend_of(gradient).is_async:
            is_one = LateFlag((gradient == 1).reshape(()))
            late.append(LateCondition(is_one, lambda: WAS_GIVEN))
        elif gradient.numel() != 1 or gradient.item() != 1:
            return LossReading(WAS_GIVEN)
    return replace(reading, late=(*reading.late, *late)) if late else reading

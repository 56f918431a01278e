"""Captures the output gradients of layers while backward runs.

A capture is attached to a layer's output y and receives the gradient of the loss with
respect to y, [B, ..., p].  Parameters are not in autograd's graph at all (the engine
turns ``requires_grad`` off during forward), so torch computes no parameter gradient.
That leaves one gap: a layer whose input needs no gradient, as the first one, would have
an output outside any graph.  There the output becomes the root of a new graph.

Source: Goodfellow (2015), arXiv:1510.01799, who reads the same two quantities, inputs
and output gradients, from an ordinary backward.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Variable

from dpsgd_explorer.dp.layers.rewrite import BackpropCallback
from dpsgd_explorer.errors import PrivacyError

#: Makes of an output's gradient what is held of it.
Reduce = Callable[[Tensor], Tensor]


class BackpropCapture:
    """The output gradients of one forward pass, delivered once, when backward ends.

    Args:
        deliver: Called with {key: gradient}.  The key of an output that the loss does
            not depend on is missing.
    """

    def __init__(self, deliver: Callable[[dict[str, Tensor]], None]) -> None:
        self._deliver = deliver
        self._gradients: dict[str, Tensor] = {}
        self._refusal = ""

    def attach(self, key: str, output: Tensor, reduce: Reduce | None = None) -> Tensor:
        """Return the output with a capture; the caller must use the returned tensor.

        Args:
            key: Name of the output.
            output: The output.
            reduce: What is held in place of its gradient.
        """
        callback = self.callback(key, reduce)
        node = output.grad_fn
        if node is None:
            if not output.requires_grad:
                return _graph_root(output, callback)
            output.register_hook(callback)  # type: ignore[no-untyped-call]
            return output
        # An autograd function in a layer's place calls back itself; see
        # ``autograd_functions``.
        callbacks = getattr(node, "backprop_callbacks", None)
        if callbacks is not None:
            callbacks.append(callback)
        else:
            node.register_prehook(partial(_of_result, output.output_nr, callback))
        return output

    def callback(self, key: str, reduce: Reduce | None = None) -> BackpropCallback:
        """Return the function to call with the gradient of the output named ``key``."""
        return partial(self._receive, key, reduce)

    def close(self, reason: str) -> None:
        """Raise PrivacyError(reason) at every gradient that comes from now on."""
        self._refusal = reason

    def _receive(self, key: str, reduce: Reduce | None, gradient: Tensor) -> None:
        if self._refusal:
            raise PrivacyError(self._refusal)
        if torch.is_grad_enabled():
            raise PrivacyError(
                "backward must be called with create_graph=False: a loss computed from "
                "gradients is not a sum over samples."
            )
        if not self._gradients:
            # Autograd calls this once, after the last node of the running backward.
            Variable._execution_engine.queue_callback(self._finish)
        self._gradients[key] = gradient if reduce is None else reduce(gradient)

    def _finish(self) -> None:
        self.close(
            "backward ran twice through one forward pass, which would count every "
            "sample twice. Add the losses and call backward once."
        )
        gradients, self._gradients = self._gradients, {}
        # A device's thread of autograd has a mode of its own.
        with torch.no_grad() if torch.is_grad_enabled() else nullcontext():
            self._deliver(gradients)


def _of_result(
    number: int, callback: BackpropCallback, gradients: tuple[Tensor | None, ...]
) -> None:
    """Call back with the gradient of a node's result, if there is one."""
    gradient = gradients[number]
    if gradient is not None:
        callback(gradient)


def start_graph(output: Tensor) -> Tensor:
    """Return the output as the root of a graph if it is in none, without a capture."""
    return output if output.requires_grad else _graph_root(output, lambda _: None)


#: Only a function with an input that requires a gradient enters a graph; this one never
#: gets its gradient.
_ANCHOR = torch.empty(0, requires_grad=True)


def _graph_root(output: Tensor, callback: BackpropCallback) -> Tensor:
    root: Tensor = _GraphRoot.apply(_ANCHOR, (output, callback))  # type: ignore[no-untyped-call]
    return root


class _GraphRoot(torch.autograd.Function):
    """The first node of a graph; its result is a given tensor."""

    @staticmethod
    def forward(
        ctx: Any, anchor: Tensor, box: tuple[Tensor, BackpropCallback]
    ) -> Tensor:
        """Return the tensor in the box.

        In a box: as an argument it would be an input of this node, and autograd would
        forbid operations in place on the result, as an in-place ReLU that follows.
        """
        output, ctx.callback = box
        # A second tensor on the same memory: the node's own must have no other history.
        return output.detach()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None]:
        """Report the gradient; no node comes before this one."""
        ctx.callback(gradients[0])
        return None, None

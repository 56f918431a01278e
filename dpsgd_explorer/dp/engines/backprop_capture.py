"""Captures the output gradients of layers while backward runs.

A capture is attached to a layer's output y and receives the gradient of the loss with
respect to y, [B, ..., p].  Parameters are not in autograd's graph at all (the engine
turns ``requires_grad`` off during forward), so torch computes no parameter gradient.
One case remains: the output of a layer whose input needs no gradient, such as the first
layer, would be outside any graph.  Such an output becomes the root of a new graph.

Source: Goodfellow (2015), arXiv:1510.01799 (inputs and output gradients from an
ordinary backward).
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

#: Computes the tensor that is stored in place of an output's gradient.
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
        self._closed_because = ""

    def attach(self, key: str, output: Tensor, reduce: Reduce | None = None) -> Tensor:
        """Returns the output with a capture; the caller must use the returned tensor.

        Args:
            key: Name of the output.
            output: The output.
            reduce: Computes the tensor that is stored in place of the gradient; None
                stores the gradient.
        """
        callback = partial(self._receive, key, reduce)
        node = output.grad_fn
        if node is None:
            if not output.requires_grad:
                return _graph_root(output, callback)
            output.register_hook(callback)  # type: ignore[no-untyped-call]
            return output
        # An autograd function that replaces a layer calls its callbacks itself; see
        # ``autograd_functions``.
        callbacks = getattr(node, "backprop_callbacks", None)
        if callbacks is not None:
            callbacks.append(callback)
        else:
            node.register_prehook(partial(_of_result, output.output_nr, callback))
        return output

    def callback(self, key: str, reduce: Reduce | None = None) -> BackpropCallback:
        """Returns the function to call with the gradient of output ``key``."""
        return partial(self._receive, key, reduce)

    def close(self, reason: str) -> None:
        """Makes every later gradient raise PrivacyError(reason)."""
        self._closed_because = reason

    def _receive(self, key: str, reduce: Reduce | None, gradient: Tensor) -> None:
        if self._closed_because:
            raise PrivacyError(self._closed_because)
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
        # Autograd's thread for a device has a separate gradient mode.
        with torch.no_grad() if torch.is_grad_enabled() else nullcontext():
            self._deliver(gradients)


def _of_result(
    number: int, callback: BackpropCallback, gradients: tuple[Tensor | None, ...]
) -> None:
    """Calls the callback with the gradient of a node's result, if there is one."""
    gradient = gradients[number]
    if gradient is not None:
        callback(gradient)


def start_graph(output: Tensor) -> Tensor:
    """Returns the output in a graph: its graph, or a new one with it as the root."""
    return output if output.requires_grad else _graph_root(output, lambda _: None)


#: Input of ``_GraphRoot``, because only a function with an input that requires a
#: gradient enters a graph.  The gradient of this input is never computed.
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
        """Returns the tensor in the box.

        As a direct argument the tensor would be an input of this node, and autograd
        would forbid in-place operations on the result, such as a following in-place
        ReLU.
        """
        output, ctx.callback = box
        # The result shares the memory but is a new tensor, because the result of a node
        # must have no other history.
        return output.detach()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None]:
        """Reports the gradient; the graph ends here."""
        ctx.callback(gradients[0])
        return None, None

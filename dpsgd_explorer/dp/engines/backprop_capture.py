"""Takes the output gradients of one forward pass as backward goes by.

A tap sits on a layer's output.  Where nothing before it needs a gradient, the output
itself becomes the start of autograd's graph; no parameter is ever asked for one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Variable

from dpsgd_explorer.errors import PrivacyError


class BackpropCapture:
    """The output gradients of one forward pass, delivered once, when backward ends.

    Args:
        deliver: Called with {name: gradient}; an output that the loss does not
            depend on is missing from it.
    """

    def __init__(self, deliver: Callable[[dict[str, Tensor]], None]) -> None:
        self._deliver = deliver
        self._gradients: dict[str, Tensor] = {}
        self._refusal = ""

    def tap(self, name: str, output: Tensor) -> Tensor:
        """Return the output, watched from now on; use the returned tensor."""

        def arrive(gradient: Tensor) -> None:
            self._arrive(name, gradient)

        arrivals = getattr(output.grad_fn, "arrivals", None)
        if arrivals is not None:  # of a function in a layer's place
            arrivals.append(arrive)
            return output
        if output.requires_grad:
            output.register_hook(arrive)  # type: ignore[no-untyped-call]
            return output
        return _start(output, arrive)

    def expect(self, name: str) -> Callable[[Tensor], None]:
        """Return what an operation of our own calls with its output's gradient."""
        return lambda gradient: self._arrive(name, gradient)

    def close(self, reason: str) -> None:
        """Refuse every gradient that comes from now on."""
        self._refusal = reason

    def _arrive(self, name: str, gradient: Tensor) -> None:
        if self._refusal:
            raise PrivacyError(self._refusal)
        if torch.is_grad_enabled():
            raise PrivacyError(
                "backward must be called with create_graph=False: a loss made of "
                "gradients is not a sum over samples."
            )
        if not self._gradients:
            Variable._execution_engine.queue_callback(self._finish)
        self._gradients[name] = gradient

    def _finish(self) -> None:
        self.close(
            "backward ran twice through one forward pass, which would count every "
            "sample twice; add the losses and call backward once."
        )
        gradients, self._gradients = self._gradients, {}
        self._deliver(gradients)


def start_graph(output: Tensor) -> Tensor:
    """Return the output as the start of a graph where it is in none, unwatched."""
    return output if output.requires_grad else _start(output, lambda gradient: None)


def _start(output: Tensor, arrive: Callable[[Tensor], None]) -> Tensor:
    anchor = torch.empty(0, requires_grad=True)
    source: Tensor = _Source.apply(anchor, [output], arrive)  # type: ignore[no-untyped-call]
    return source


class _Source(torch.autograd.Function):
    """Starts a graph at a tensor that has none."""

    @staticmethod
    def forward(
        ctx: Any, anchor: Tensor, box: list[Tensor], arrive: Callable[[Tensor], None]
    ) -> Tensor:
        """Return the boxed tensor; boxed, so that it may be changed in place later."""
        ctx.arrive = arrive
        output = box[0]
        # A second tensor on the same memory: a view could not be written to.
        return output.new_empty(0).set_(output)  # type: ignore[call-overload, no-any-return]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None, None]:
        """Hand the gradient over; there is nothing before it."""
        ctx.arrive(gradients[0])
        return None, None, None

"""Recurrent cells over a whole sequence, forward and backward, with their gates.

Per-sample gradients need the gradients at the gates, which torch's recurrent kernels do
not return.  In this module one autograd function runs a cell over the steps, and back
in backward.  It computes no weight gradient.

Shapes: T steps, B samples, I inputs, H hidden units, P outputs (P = H without
projection).  ``active`` [T, B, 1] is 0 after the end of a sequence, where the state is
copied and gradients are 0.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor

from dpsgd_explorer.dp.layers.rewrite import BackpropCallback, LayerPart
from dpsgd_explorer.errors import PrivacyError


class Cell(ABC):
    """One direction of one layer, run once.

    Args:
        part: weight_ih and weight_hh, with bias_ih and bias_hh if the layer has them.
        projection: weight_hr [P, H] of an LSTM, or None.
        active: [T, B, 1], or None if all sequences have T steps.
        reverse: If True, the steps run from the last to the first.
    """

    has_memory = False

    def __init__(
        self,
        part: LayerPart,
        projection: Tensor | None,
        active: Tensor | None,
        reverse: bool,
    ) -> None:
        self.weight_ih, self.weight_hh = (
            part.weight_ih.detach(),
            part.weight_hh.detach(),
        )
        has_bias = "bias_ih" in part.names
        self.bias_ih = part.bias_ih.detach() if has_bias else None
        self.bias_hh = part.bias_hh.detach() if has_bias else None
        self.projection = projection
        self.active = active
        self.reverse = reverse
        self.hidden_before: Tensor = torch.empty(0)

    def steps(self, length: int) -> list[int]:
        """Returns the steps in their order of execution."""
        return list(range(length))[:: -1 if self.reverse else 1]

    @abstractmethod
    def run(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns outputs [T, B, P], the last state [B, P] and memory [B, H]."""

    @abstractmethod
    def back(
        self, outputs: Tensor, h: Tensor, c: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Returns gradients of the arguments of ``run`` from gradients of its results.

        Returns:
            Gradients at the gates [T, B, k H], of x, of h and of c.
        """

    def keep(self, t: int, new: Tensor, old: Tensor) -> Tensor:
        """Returns the new state where step t is active, else the old one."""
        if self.active is None:
            return new
        return torch.where(self.active[t] > 0, new, old)

    def mask(self, t: int, values: Tensor) -> Tensor:
        """Returns the values where step t is active, else 0."""
        return values if self.active is None else values * self.active[t]


class PlainCell(Cell):
    """h' = f(W_ih x + W_hh h + b), f = tanh or max(0, .)."""

    def __init__(self, *args: Any, nonlinearity: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._tanh = nonlinearity == "tanh"

    def run(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        inputs = torch.nn.functional.linear(x, self.weight_ih, self.bias_ih)
        self.hidden_before = x.new_empty(*x.shape[:2], h.shape[1])
        self._values = torch.empty_like(inputs)
        for t in self.steps(len(x)):
            self.hidden_before[t] = h
            total = inputs[t] + torch.nn.functional.linear(
                h, self.weight_hh, self.bias_hh
            )
            self._values[t] = total.tanh() if self._tanh else total.relu()
            h = self.keep(t, self._values[t], h)
        return self._outputs(), h, c

    def _outputs(self) -> Tensor:
        # The result is a copy, because the user may change outputs in place, and
        # ``back`` needs the values.
        return self._values * (1.0 if self.active is None else self.active)

    def back(
        self, outputs: Tensor, h: Tensor, c: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        gates = torch.empty_like(outputs)
        for t in reversed(self.steps(len(outputs))):
            value = self._values[t]
            slope = 1 - value.square() if self._tanh else (value > 0).to(value.dtype)
            gates[t] = self.mask(t, (outputs[t] + h) * slope)
            h = self.keep(t, gates[t] @ self.weight_hh, h)
        return gates, gates @ self.weight_ih, h, c


class GRUCell(Cell):
    """r, z gates; n = tanh(x_n + r h_n); h' = (1 - z) n + z h."""

    def run(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        inputs = torch.nn.functional.linear(x, self.weight_ih, self.bias_ih)
        width = h.shape[1]
        self.hidden_before = x.new_empty(*x.shape[:2], width)
        self._kept = x.new_empty(*x.shape[:2], 4 * width)  # r, z, n, h_n
        outputs = torch.empty_like(self.hidden_before)
        for t in self.steps(len(x)):
            self.hidden_before[t] = h
            hidden = torch.nn.functional.linear(h, self.weight_hh, self.bias_hh)
            r, z, n, h_n = self._kept[t].chunk(4, 1)
            r.copy_((inputs[t, :, :width] + hidden[:, :width]).sigmoid_())
            middle = slice(width, 2 * width)
            z.copy_((inputs[t, :, middle] + hidden[:, middle]).sigmoid_())
            h_n.copy_(hidden[:, 2 * width :])
            n.copy_((inputs[t, :, 2 * width :] + r * h_n).tanh_())
            outputs[t] = torch.lerp(n, h, z)
            h = self.keep(t, outputs[t], h)
        return outputs if self.active is None else outputs * self.active, h, c

    def back(
        self, outputs: Tensor, h: Tensor, c: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        all_gates = torch.empty_like(self._kept)  # r, z, n_h, n_x
        width = h.shape[1]
        for t in reversed(self.steps(len(outputs))):
            r, z, n, h_n = self._kept[t].chunk(4, 1)
            total = self.mask(t, outputs[t] + h)
            d_r, d_z, d_nh, d_nx = all_gates[t].chunk(4, 1)
            torch.mul(total * (1 - z), 1 - n.square(), out=d_nx)
            torch.mul(d_nx, r, out=d_nh)
            torch.mul(d_nx * h_n, r * (1 - r), out=d_r)
            torch.mul(total * (self.hidden_before[t] - n), z * (1 - z), out=d_z)
            back = all_gates[t, :, : 3 * width] @ self.weight_hh + total * z
            h = self.keep(t, back, h)
        both = all_gates[..., : 2 * width], all_gates[..., 3 * width :]
        return all_gates, torch.cat(both, 2) @ self.weight_ih, h, c


class Run(torch.autograd.Function):
    """A cell's ``run`` as a node of autograd's graph, with a callback for its gates."""

    @staticmethod
    def forward(
        ctx: Any,
        cell: Cell,
        callback: BackpropCallback,
        anchor: Tensor,
        x: Tensor,
        h: Tensor,
        c: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Returns outputs and last states; the anchor puts this node into a graph."""
        ctx.cell, ctx.callback = cell, callback
        outputs, last_h, last_c = cell.run(x, h, c)
        return outputs, last_h.clone(), last_c.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Reports the gradients of the gates; returns the gradients of the inputs."""
        cell, ctx.cell = ctx.cell, None  # Frees the saved gates after this call.
        if cell is None:
            raise PrivacyError(
                "backward ran twice through one forward pass of a recurrent layer. Add "
                "the losses and call backward once."
            )
        gates, x, h, c = cell.back(*gradients)
        ctx.callback(gates)
        ctx.callback = None
        return None, None, None, x, h, c

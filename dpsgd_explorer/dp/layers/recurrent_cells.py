"""Recurrent cells over a whole sequence, forward and backward, with their gates.

Per-sample gradients need the gradients at the gates, which torch's recurrent kernels do
not return.  Here one autograd function runs a cell over the steps and back; it computes
no weight gradient.

Shapes: T steps, B samples, I inputs, H hidden units, P outputs (P = H without
projection).  ``active`` [T, B, 1] is 0 beyond a sequence's end: there the state is
copied and gradients are 0.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dpsgd_explorer.dp.layers.rewrite import BackpropCallback, LayerPart
from dpsgd_explorer.errors import PrivacyError

#: Steps of an LSTM whose factors are made together: few calls, and in cache.
STEPS_AT_ONCE = 16


class Slopes(NamedTuple):
    """The factors of one step of an LSTM's backward, [B, n, H] each.

    With dm the gradient of m = o tanh(c) and dc that of c:

    Attributes:
        m: o and tanh(c), which multiply dm.
        of_m: 1 - tanh(c)^2 and o (1 - o), which multiply that: parts of dc and do.
        c: g, the memory before, and i, which multiply dc.
        of_c: i (1 - i), f (1 - f) and 1 - g^2, which multiply that: di, df and dg.
        f: f, [B, H].
    """

    m: Tensor
    of_m: Tensor
    c: Tensor
    of_c: Tensor
    f: Tensor


class Cell(ABC):
    """One direction of one layer, run once.

    Args:
        part: weight_ih and weight_hh, with bias_ih and bias_hh if the layer has them.
        projection: weight_hr [P, H] of an LSTM, or None.
        active: [T, B, 1], or None if all sequences have T steps.
        reverse: Whether the steps run from the last to the first.
    """

    splits_candidate = False
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
        """Return the steps in their order of execution."""
        return list(range(length))[:: -1 if self.reverse else 1]

    @abstractmethod
    def run(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return outputs [T, B, P], the last state [B, P] and memory [B, H]."""

    @abstractmethod
    def back(
        self, outputs: Tensor, h: Tensor, c: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the gradients of the arguments of ``run`` from those of its results.

        Returns:
            Gradients at the gates [T, B, k H], of x, of h and of c.
        """

    def keep(self, t: int, new: Tensor, old: Tensor) -> Tensor:
        """Return the new state where step t is active, else the old one."""
        if self.active is None:
            return new
        return torch.where(self.active[t] > 0, new, old)

    def mask(self, t: int, values: Tensor) -> Tensor:
        """Return the values where step t is active, else 0."""
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
        # A copy: the user may change outputs in place, and back() needs the values.
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


class LSTMCell(Cell):
    """Gates [i, f, g, o]: c' = f c + i g, h' = o tanh(c'), maybe projected."""

    has_memory = True

    def run(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        bias = None if self.bias_ih is None else self.bias_ih + self.bias_hh
        inputs = torch.nn.functional.linear(x, self.weight_ih, bias)
        length, batch, hidden = *x.shape[:2], c.shape[1]
        self._gates = inputs
        self.unprojected = x.new_empty(length, batch, hidden)
        self._tanh_memory = torch.empty_like(self.unprojected)
        outputs = (
            self.unprojected
            if self.projection is None
            else x.new_empty(length, batch, h.shape[1])
        )
        # Steps are small: views of all of them are made at once, not one by one.
        i_f = inputs[..., : 2 * hidden].unbind(0)
        i, f, g, o = (gate.unbind(0) for gate in inputs.chunk(4, 2))
        every, tanhs = inputs.unbind(0), self._tanh_memory.unbind(0)
        states, projected = self.unprojected.unbind(0), outputs.unbind(0)
        hidden_before, self._memory_before = [h] * length, [c] * length
        weight = self.weight_hh.t()
        for t in self.steps(length):
            hidden_before[t], self._memory_before[t] = h, c
            every[t].addmm_(h, weight)
            i_f[t].sigmoid_()
            o[t].sigmoid_()
            g[t].tanh_()
            new = torch.addcmul(f[t] * c, i[t], g[t])
            tanh = torch.tanh(new, out=tanhs[t])
            m = torch.mul(o[t], tanh, out=states[t])
            if self.projection is not None:
                m = torch.mm(m, self.projection.t(), out=projected[t])
            h, c = self.keep(t, m, h), self.keep(t, new, c)
        if length:  # samples first in memory, as the rule of the gates reads them
            self.hidden_before = torch.stack(hidden_before, 1).transpose(0, 1)
        else:
            self.hidden_before = x.new_empty(0, batch, h.shape[1])
        return outputs if self.active is None else outputs * self.active, h.clone(), c

    def back(
        self, outputs: Tensor, h: Tensor, c: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        # Gradients overwrite the gates, to save memory.  Without a projection, the
        # projected gradients are not read later, so one row serves for all steps.
        every = outputs if self.projection is not None else outputs[:1]
        self.projected_gradients = torch.empty_like(every).expand_as(outputs)
        totals, arriving = self.projected_gradients.unbind(0), outputs.unbind(0)
        steps = self.steps(len(outputs))[::-1]
        for start in range(0, len(steps), STEPS_AT_ONCE):
            block = steps[start : start + STEPS_AT_ONCE]
            for t, slopes in zip(block, self._slopes(block), strict=True):
                total = torch.add(arriving[t], h, out=totals[t])
                if self.active is not None:
                    total.mul_(self.active[t])
                dm = total if self.projection is None else total @ self.projection
                before = c
                row = self._gates[t]
                gates = row.unflatten(1, (4, -1))  # type: ignore[no-untyped-call]
                # To the third and fourth place: what c gets, and the gradient of o.
                torch.mul(dm.unsqueeze(1) * slopes.m, slopes.of_m, out=gates[:, 2:])
                c = c + gates[:, 2]
                torch.mul(c.unsqueeze(1) * slopes.c, slopes.of_c, out=gates[:, :3])
                if self.active is not None:
                    row *= self.active[t]
                h = self.keep(t, row @ self.weight_hh, h)
                c = self.keep(t, c * slopes.f, before)
        return self._gates, self._gates @ self.weight_ih, h, c

    def _slopes(self, steps: list[int]) -> Iterator[Slopes]:
        """Return the factors of each of consecutive steps, made for all at once."""
        first, last = min(steps), max(steps)
        i, f, g, o = self._gates[first : last + 1].chunk(4, 2)
        tanh = self._tanh_memory[first : last + 1]
        before = torch.stack(self._memory_before[first : last + 1])
        of_all = (
            torch.stack([o, tanh], 2),
            torch.stack([1 - tanh.square(), o * (1 - o)], 2),
            torch.stack([g, before, i], 2),
            torch.stack([i * (1 - i), f * (1 - f), 1 - g.square()], 2),
            f.clone(),
        )
        each = zip(*(factors.unbind(0) for factors in of_all), strict=True)
        in_order = [Slopes(*factors) for factors in each]
        return iter(in_order if steps[0] == first else in_order[::-1])


class GRUCell(Cell):
    """r, z gates; n = tanh(x_n + r h_n); h' = (1 - z) n + z h."""

    splits_candidate = True

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
        """Return outputs and last states; the anchor puts this node into a graph."""
        ctx.cell, ctx.callback = cell, callback
        outputs, last_h, last_c = cell.run(x, h, c)
        return outputs, last_h.clone(), last_c.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Call back with the gates' gradients and return those of the inputs."""
        cell, ctx.cell = ctx.cell, None  # frees the saved gates after this call
        if cell is None:
            raise PrivacyError(
                "backward ran twice through one forward pass of a recurrent layer; add "
                "the losses and call backward once."
            )
        gates, x, h, c = cell.back(*gradients)
        ctx.callback(gates)
        ctx.callback = None
        return None, None, None, x, h, c

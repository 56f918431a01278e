"""The cell of an LSTM, by torch's operations or by a compiled loop a step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor

from dpsgd_explorer.dp.kernels import lstm_steps
from dpsgd_explorer.dp.layers.recurrent_cells import Cell

#: Steps whose factors torch makes together: few calls, and in cache.
STEPS_AT_ONCE = 16


class LSTMCell(Cell):
    """Gates [i, f, g, o]: c' = f c + i g, h' = o tanh(c'), maybe projected."""

    has_memory = True

    def run(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        bias = None if self.bias_ih is None else self.bias_ih + self.bias_hh
        inputs = torch.nn.functional.linear(x, self.weight_ih, bias).contiguous()
        length, batch, hidden = *x.shape[:2], c.shape[1]
        self._gates = inputs
        self.unprojected = x.new_empty(length, batch, hidden)
        outputs = (
            self.unprojected
            if self.projection is None
            else x.new_empty(length, batch, h.shape[1])
        )
        is_compiled = lstm_steps.serves(inputs)
        self._elements = (CompiledElements if is_compiled else TorchElements)(
            inputs, self.unprojected, self.active
        )
        # Steps are small: views of all of them are made at once, not one by one.
        every, states = inputs.unbind(0), self.unprojected.unbind(0)
        projected, hidden_before = outputs.unbind(0), [h] * length
        weight = self.weight_hh.t()
        for t in self.steps(length):
            hidden_before[t] = h
            every[t].addmm_(h, weight)
            c = self._elements.forward(t, c)
            m = states[t]
            if self.projection is not None:
                m = torch.mm(m, self.projection.t(), out=projected[t])
            h = self.keep(t, m, h)
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
        gates, c = self._gates.unbind(0), c.contiguous().clone()
        for t in reversed(self.steps(len(outputs))):
            total = torch.add(arriving[t], h, out=totals[t])
            if self.active is not None:
                total.mul_(self.active[t])
            dm = total if self.projection is None else total @ self.projection
            c = self._elements.backward(t, dm, c)
            h = self.keep(t, gates[t] @ self.weight_hh, h)
        return self._gates, self._gates @ self.weight_ih, h, c


class Elements(ABC):
    """The element-wise parts of an LSTM's steps.

    Args:
        gates: [T, B, 4 H], contiguous.  Of each step, ``forward`` finds what the linear
            maps give and leaves i, f, g and o, which ``backward`` overwrites by their
            gradients, 0 where it is not active.
        outputs: Gets o tanh(c) of each step, [T, B, H].
        active: As a cell's.
    """

    def __init__(self, gates: Tensor, outputs: Tensor, active: Tensor | None) -> None:
        self.gates, self.outputs, self.active = gates, outputs, active
        self.every, self.each_output = gates.unbind(0), outputs.unbind(0)
        self.tanh_memory = torch.empty_like(outputs)
        self.tanhs = self.tanh_memory.unbind(0)
        #: The memory before each step, [B, H].
        self.before: list[Tensor] = [torch.empty(0)] * len(gates)

    @abstractmethod
    def forward(self, t: int, c: Tensor) -> Tensor:
        """Run step t from memory c, [B, H]; return the memory after it."""

    @abstractmethod
    def backward(self, t: int, dm: Tensor, dc: Tensor) -> Tensor:
        """Return the gradient of the memory before step t.

        Args:
            t: The step, in the reverse of their order.
            dm: Gradient of o tanh(c), [B, H].
            dc: Gradient of the memory after it, [B, H]; may be overwritten.
        """


class CompiledElements(Elements):
    """By ``lstm_steps.c``."""

    def forward(self, t: int, c: Tensor) -> Tensor:
        self.before[t] = c = c.contiguous()
        memory = torch.empty_like(c)
        lstm_steps.forward(
            self.every[t],
            c,
            self._active(t),
            memory=memory,
            tanh_memory=self.tanhs[t],
            output=self.each_output[t],
        )
        return memory

    def backward(self, t: int, dm: Tensor, dc: Tensor) -> Tensor:
        lstm_steps.backward(
            self.every[t],
            self.before[t],
            self._active(t),
            tanh_memory=self.tanhs[t],
            dm=dm.contiguous(),
            dc=dc,
        )
        return dc

    def _active(self, t: int) -> Tensor | None:
        return None if self.active is None else self.active[t]


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


class TorchElements(Elements):
    """By torch's operations, on any device and of any precision."""

    def __init__(self, gates: Tensor, outputs: Tensor, active: Tensor | None) -> None:
        super().__init__(gates, outputs, active)
        hidden = outputs.shape[2]
        self._i_f = gates[..., : 2 * hidden].unbind(0)
        self._i, self._f, self._g, self._o = (
            gate.unbind(0) for gate in gates.chunk(4, 2)
        )
        self._slopes: dict[int, Slopes] = {}

    def forward(self, t: int, c: Tensor) -> Tensor:
        self.before[t] = c
        self._i_f[t].sigmoid_()
        self._o[t].sigmoid_()
        self._g[t].tanh_()
        new = torch.addcmul(self._f[t] * c, self._i[t], self._g[t])
        tanh = torch.tanh(new, out=self.tanhs[t])
        torch.mul(self._o[t], tanh, out=self.each_output[t])
        return new if self.active is None else torch.where(self.active[t] > 0, new, c)

    def backward(self, t: int, dm: Tensor, dc: Tensor) -> Tensor:
        if t not in self._slopes:
            self._slopes = self._block(t)
        slopes = self._slopes[t]
        gates = self.every[t].unflatten(1, (4, -1))  # type: ignore[no-untyped-call]
        # To the third and fourth place: what dc gets, and the gradient of o.
        torch.mul(dm.unsqueeze(1) * slopes.m, slopes.of_m, out=gates[:, 2:])
        total = dc + gates[:, 2]
        torch.mul(total.unsqueeze(1) * slopes.c, slopes.of_c, out=gates[:, :3])
        before: Tensor = total * slopes.f
        if self.active is None:
            return before
        self.every[t].mul_(self.active[t])
        return torch.where(self.active[t] > 0, before, dc)

    def _block(self, t: int) -> dict[int, Slopes]:
        """Return {step: factors} of the steps beside t, made for all at once."""
        first = t - t % STEPS_AT_ONCE
        block = slice(first, first + STEPS_AT_ONCE)
        i, f, g, o = self.gates[block].chunk(4, 2)
        tanh, before = self.tanh_memory[block], torch.stack(self.before[block])
        of_all = (
            torch.stack([o, tanh], 2),
            torch.stack([1 - tanh.square(), o * (1 - o)], 2),
            torch.stack([g, before, i], 2),
            torch.stack([i * (1 - i), f * (1 - f), 1 - g.square()], 2),
            f.clone(),
        )
        each = zip(*(factors.unbind(0) for factors in of_all), strict=True)
        return {first + i: Slopes(*factors) for i, factors in enumerate(each)}

"""The steps of an LSTM's cell over a sequence, forward and back, by torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

#: Steps whose factors torch computes together: few calls, and in cache.
STEPS_AT_ONCE = 16


class CellWeights(Protocol):
    """What the steps of a sequence read of a cell; see ``layers.recurrent_cells``."""

    weight_hh: Tensor
    projection: Tensor | None
    active: Tensor | None
    reverse: bool

    def steps(self, length: int) -> list[int]:
        """Return the steps in their order of execution."""

    def keep(self, t: int, new: Tensor, old: Tensor) -> Tensor:
        """Return the new state of sequences that have a step t, and others' old one."""


class Steps(ABC):
    """The steps of an LSTM's cell over a whole sequence.

    Its cell, which has the weights, the order and the ends of the steps, is an
    argument: a reference to it would be a circle, and memory be freed late.

    Args:
        gates: [T, B, 4 H], contiguous.  ``forward`` finds what the inputs' map gives,
            ``backward`` leaves the gradients of the gates, to save memory.

    Attributes:
        unprojected: o tanh(c), [T, B, H], after ``forward``.
        hidden_before: h before each step, [T, B, P], samples first in memory, as the
            rule of the gates reads them.
        projected_gradients: Gradients of the projection's results, [T, B, P], after
            ``backward``; only where there is a projection.
    """

    unprojected: Tensor
    hidden_before: Tensor
    projected_gradients: Tensor

    def __init__(self, gates: Tensor) -> None:
        self.gates = gates

    @abstractmethod
    def forward(
        self, cell: CellWeights, h: Tensor, c: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the outputs, [T, B, P], and the last h and c."""

    @abstractmethod
    def backward(
        self, cell: CellWeights, outputs: Tensor, h: Tensor, c: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the gradients of the first h and c from those of the results."""


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


class TorchSteps(Steps):
    """By torch's operations, on any device and of any precision."""

    def forward(
        self, cell: CellWeights, h: Tensor, c: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        gates = self.gates
        length, batch, hidden = *gates.shape[:2], c.shape[1]
        self.unprojected = gates.new_empty(length, batch, hidden)
        outputs = (
            self.unprojected
            if cell.projection is None
            else gates.new_empty(length, batch, h.shape[1])
        )
        self._prepare()
        # Steps are small: views of all of them are made at once, not one by one.
        projected, hidden_before = outputs.unbind(0), [h] * length
        weight = cell.weight_hh.t()
        for t in cell.steps(length):
            hidden_before[t] = h
            self._every[t].addmm_(h, weight)
            c = cell.keep(t, self._forward(t, c), c)
            m = self._states[t]
            if cell.projection is not None:
                m = torch.mm(m, cell.projection.t(), out=projected[t])
            h = cell.keep(t, m, h)
        if length:
            self.hidden_before = torch.stack(hidden_before, 1).transpose(0, 1)
        else:
            self.hidden_before = gates.new_empty(0, batch, h.shape[1])
        return outputs, h.clone(), c

    def backward(
        self, cell: CellWeights, outputs: Tensor, h: Tensor, c: Tensor
    ) -> tuple[Tensor, Tensor]:
        # Without a projection, the projected gradients are not read later, so one row
        # serves for all steps.
        every = outputs if cell.projection is not None else outputs[:1]
        self.projected_gradients = torch.empty_like(every).expand_as(outputs)
        totals, arriving = self.projected_gradients.unbind(0), outputs.unbind(0)
        for t in reversed(cell.steps(len(outputs))):
            total = torch.add(arriving[t], h, out=totals[t])
            if cell.active is not None:
                total.mul_(cell.active[t])
            dm = total if cell.projection is None else total @ cell.projection
            before = self._backward(t, dm, c)
            if cell.active is not None:
                self._every[t].mul_(cell.active[t])
            c = cell.keep(t, before, c)
            h = cell.keep(t, self._every[t] @ cell.weight_hh, h)
        return h, c

    def _prepare(self) -> None:
        gates, hidden = self.gates, self.unprojected.shape[2]
        self._every, self._states = gates.unbind(0), self.unprojected.unbind(0)
        self._tanh_memory = torch.empty_like(self.unprojected)
        self._tanhs = self._tanh_memory.unbind(0)
        self._memory_before = [torch.empty(0)] * len(gates)
        self._i_f = gates[..., : 2 * hidden].unbind(0)
        self._i, self._f, self._g, self._o = (
            gate.unbind(0) for gate in gates.chunk(4, 2)
        )
        self._slopes: dict[int, Slopes] = {}

    def _forward(self, t: int, c: Tensor) -> Tensor:
        """Run the element-wise part of step t; return the memory after it."""
        self._memory_before[t] = c
        self._i_f[t].sigmoid_()
        self._o[t].sigmoid_()
        self._g[t].tanh_()
        new = torch.addcmul(self._f[t] * c, self._i[t], self._g[t])
        tanh = torch.tanh(new, out=self._tanhs[t])
        torch.mul(self._o[t], tanh, out=self._states[t])
        return new

    def _backward(self, t: int, dm: Tensor, dc: Tensor) -> Tensor:
        """Return the gradient of the memory before step t.

        Args:
            t: The step, in the reverse of their order.
            dm: Gradient of o tanh(c), [B, H].
            dc: Gradient of the memory after it, [B, H].
        """
        if t not in self._slopes:
            self._slopes = self._block(t)
        slopes = self._slopes[t]
        gates = self._every[t].unflatten(1, (4, -1))  # type: ignore[no-untyped-call]
        # To the third and fourth place: what dc gets, and the gradient of o.
        torch.mul(dm.unsqueeze(1) * slopes.m, slopes.of_m, out=gates[:, 2:])
        total = dc + gates[:, 2]
        torch.mul(total.unsqueeze(1) * slopes.c, slopes.of_c, out=gates[:, :3])
        before: Tensor = total * slopes.f
        return before

    def _block(self, t: int) -> dict[int, Slopes]:
        """Return {step: factors} of the steps beside t, made for all at once."""
        first = t - t % STEPS_AT_ONCE
        block = slice(first, first + STEPS_AT_ONCE)
        i, f, g, o = self.gates[block].chunk(4, 2)
        tanh, before = self._tanh_memory[block], torch.stack(self._memory_before[block])
        of_all = (
            torch.stack([o, tanh], 2),
            torch.stack([1 - tanh.square(), o * (1 - o)], 2),
            torch.stack([g, before, i], 2),
            torch.stack([i * (1 - i), f * (1 - f), 1 - g.square()], 2),
            f.clone(),
        )
        each = zip(*(factors.unbind(0) for factors in of_all), strict=True)
        return {first + i: Slopes(*factors) for i, factors in enumerate(each)}

"""The steps of an LSTM cell over a sequence, forward and backward, with torch.

T steps, B samples, H hidden units, P outputs (H without a projection).  Gates are in
torch's order i, f, g, o; h is the hidden state and c the memory:

    c = f c' + i g,   h = o tanh(c), projected if the cell has a projection
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

#: Steps whose backward factors are computed together: more steps need fewer calls, but
#: their factors must stay in cache until they are used.
STEPS_PER_BLOCK = 16


class CellWeights(Protocol):
    """The attributes of a cell that the steps read; see ``layers.recurrent_cells``."""

    weight_hh: Tensor
    projection: Tensor | None
    active: Tensor | None
    reverse: bool

    def steps(self, length: int) -> list[int]:
        """Returns the steps in their order of execution."""

    def keep(self, t: int, new: Tensor, old: Tensor) -> Tensor:
        """Returns the new state of samples with a step t, and the old one of others."""


class Steps(ABC):
    """The steps of an LSTM cell over a whole sequence.

    The cell has the weights, the order of the steps, and the end of each sample.  It is
    an argument of each method: an attribute would create a reference cycle, which frees
    memory late.

    Args:
        gates: [T, B, 4 H], contiguous.  Initially the linear map of the inputs;
            ``forward`` overwrites it with the gates, and ``backward`` with the gates'
            gradients, to save memory.

    Attributes:
        unprojected: o tanh(c), [T, B, H], after ``forward``.
        hidden_before: h before each step, [T, B, P], after ``forward``.  Samples come
            first in memory, as the rule of the gates reads them.
        projected_gradients: Gradients of the projection's results, [T, B, P], after
            ``backward``; only if the cell has a projection.
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
        """Runs all steps.

        Args:
            cell: Weights and order of the steps.
            h: Hidden state before the first step, [B, P].
            c: Memory before the first step, [B, H].

        Returns:
            The outputs, [T, B, P], and h and c after the last step.
        """

    @abstractmethod
    def backward(
        self, cell: CellWeights, outputs: Tensor, h: Tensor, c: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Runs all steps backward.

        Args:
            cell: Weights and order of the steps.
            outputs: Gradients of the outputs, [T, B, P].
            h: Gradient of h after the last step, [B, P].
            c: Gradient of c after the last step, [B, H].

        Returns:
            The gradients of h and c before the first step.
        """


class BackwardFactors(NamedTuple):
    """The factors of one backward step, [B, n, H] each.

    dm is the gradient of m = o tanh(c), dc the gradient of c, and c' the memory before
    the step:

        dc += dm o (1 - tanh(c)^2),   do = dm tanh(c) o (1 - o)
        di = dc g i (1 - i),   df = dc c' f (1 - f),   dg = dc i (1 - g^2)

    Attributes:
        m_values: o and tanh(c).
        m_slopes: 1 - tanh(c)^2 and o (1 - o).
        c_values: g, c' and i.
        c_slopes: i (1 - i), f (1 - f) and 1 - g^2.
        forget: f, [B, H]; the gradient of c' is dc f.
    """

    m_values: Tensor
    m_slopes: Tensor
    c_values: Tensor
    c_slopes: Tensor
    forget: Tensor


class TorchSteps(Steps):
    """The steps with torch's operations, on any device and in any precision."""

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
        # Steps are small, so the views of all steps are created in one call.
        projected, hidden_before = outputs.unbind(0), [h] * length
        weight = cell.weight_hh.t()
        for t in cell.steps(length):
            hidden_before[t] = h
            self._step_gates[t].addmm_(h, weight)
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
        # Without a projection, the projected gradients are not read later, so all steps
        # overwrite one row.
        rows = outputs if cell.projection is not None else outputs[:1]
        self.projected_gradients = torch.empty_like(rows).expand_as(outputs)
        totals, arriving = self.projected_gradients.unbind(0), outputs.unbind(0)
        for t in reversed(cell.steps(len(outputs))):
            total = torch.add(arriving[t], h, out=totals[t])
            if cell.active is not None:
                total.mul_(cell.active[t])
            dm = total if cell.projection is None else total @ cell.projection
            before = self._backward(t, dm, c)
            if cell.active is not None:
                self._step_gates[t].mul_(cell.active[t])
            c = cell.keep(t, before, c)
            h = cell.keep(t, self._step_gates[t] @ cell.weight_hh, h)
        return h, c

    def _prepare(self) -> None:
        gates, hidden = self.gates, self.unprojected.shape[2]
        self._step_gates, self._states = gates.unbind(0), self.unprojected.unbind(0)
        self._tanh_memory = torch.empty_like(self.unprojected)
        self._tanhs = self._tanh_memory.unbind(0)
        self._memory_before = [torch.empty(0)] * len(gates)
        self._i_f = gates[..., : 2 * hidden].unbind(0)
        self._i, self._f, self._g, self._o = (
            gate.unbind(0) for gate in gates.chunk(4, 2)
        )
        self._factors: dict[int, BackwardFactors] = {}

    def _forward(self, t: int, c: Tensor) -> Tensor:
        """Runs the element-wise part of step t; returns the memory after the step."""
        self._memory_before[t] = c
        self._i_f[t].sigmoid_()
        self._o[t].sigmoid_()
        self._g[t].tanh_()
        new = torch.addcmul(self._f[t] * c, self._i[t], self._g[t])
        tanh = torch.tanh(new, out=self._tanhs[t])
        torch.mul(self._o[t], tanh, out=self._states[t])
        return new

    def _backward(self, t: int, dm: Tensor, dc: Tensor) -> Tensor:
        """Overwrites the gates of step t with their gradients.

        Args:
            t: The step; steps come in the reverse of their order.
            dm: Gradient of o tanh(c), [B, H].
            dc: Gradient of the memory after the step, [B, H].

        Returns:
            The gradient of the memory before the step.
        """
        if t not in self._factors:
            self._factors = self._block_factors(t)
        factors = self._factors[t]
        gates = self._step_gates[t].unflatten(1, (4, -1))  # type: ignore[no-untyped-call]
        # One product for two results: the summand of dc, in the memory of gate g, and
        # the gradient of o.
        torch.mul(
            dm.unsqueeze(1) * factors.m_values, factors.m_slopes, out=gates[:, 2:]
        )
        total = dc + gates[:, 2]
        torch.mul(
            total.unsqueeze(1) * factors.c_values, factors.c_slopes, out=gates[:, :3]
        )
        before: Tensor = total * factors.forget
        return before

    def _block_factors(self, t: int) -> dict[int, BackwardFactors]:
        """Returns {step: factors} for all steps of the block that contains t."""
        first = t - t % STEPS_PER_BLOCK
        block = slice(first, first + STEPS_PER_BLOCK)
        i, f, g, o = self.gates[block].chunk(4, 2)
        tanh, before = self._tanh_memory[block], torch.stack(self._memory_before[block])
        stacked = (
            torch.stack([o, tanh], 2),
            torch.stack([1 - tanh.square(), o * (1 - o)], 2),
            torch.stack([g, before, i], 2),
            torch.stack([i * (1 - i), f * (1 - f), 1 - g.square()], 2),
            f.clone(),
        )
        steps = zip(*(factors.unbind(0) for factors in stacked), strict=True)
        return {first + i: BackwardFactors(*step) for i, step in enumerate(steps)}

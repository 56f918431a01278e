"""The cell of an LSTM."""

from __future__ import annotations

import torch
from torch import Tensor

from dpsgd_explorer.dp.backends import backend_of
from dpsgd_explorer.dp.layers.recurrent_cells import Cell


class LSTMCell(Cell):
    """Gates [i, f, g, o]: c' = f c + i g, h' = o tanh(c'), optionally projected."""

    has_memory = True

    def run(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        bias = None if self.bias_ih is None else self.bias_ih + self.bias_hh
        inputs = torch.nn.functional.linear(x, self.weight_ih, bias).contiguous()
        self._gates = inputs
        self._steps = backend_of(inputs).lstm_steps(inputs)
        outputs, h, c = self._steps.forward(self, h, c)
        self.unprojected = self._steps.unprojected
        self.hidden_before = self._steps.hidden_before
        return outputs if self.active is None else outputs * self.active, h, c

    def back(
        self, outputs: Tensor, h: Tensor, c: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        h, c = self._steps.backward(self, outputs, h, c)
        self.projected_gradients = self._steps.projected_gradients
        return self._gates, self._gates @ self.weight_ih, h, c

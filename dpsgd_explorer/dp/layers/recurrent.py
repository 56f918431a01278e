"""Rule for ``nn.RNN``, ``nn.GRU`` and ``nn.LSTM``.

Layers, directions, dropout between layers, packed sequences, initial states and
projections work as in torch.  One direction of one layer is one run of a cell.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from dpsgd_explorer.dp.backends.precision import in_precision
from dpsgd_explorer.dp.layers.base import BadInputError
from dpsgd_explorer.dp.layers.linear import LinearRule
from dpsgd_explorer.dp.layers.lstm_cell import LSTMCell
from dpsgd_explorer.dp.layers.recurrent_cells import Cell, GRUCell, PlainCell, Run
from dpsgd_explorer.dp.layers.recurrent_gates import GatesRule
from dpsgd_explorer.dp.layers.rewrite import CallRecorder, LayerPart, Rewrite

CELLS: dict[str, Callable[..., Cell]] = {
    "RNN_TANH": partial(PlainCell, nonlinearity="tanh"),
    "RNN_RELU": partial(PlainCell, nonlinearity="relu"),
    "LSTM": LSTMCell,
    "GRU": GRUCell,
}


class RecurrentRewrite(Rewrite[nn.RNNBase]):
    """Inputs [T, B, I], [B, T, I] with ``batch_first``, or packed."""

    def knows(self, layer: nn.RNNBase, name: str) -> bool:
        return name in layer._flat_weights_names

    def forward(
        self,
        layer: nn.RNNBase,
        original: Callable[..., Any],
        recorder: CallRecorder,
        args: Any,
        kwargs: Any,
    ) -> Any:
        given = dict(zip(("input", "hx"), args, strict=False)) | kwargs
        sequences = _unpacked(layer, recorder, given["input"])
        h, c = _initial_states(layer, sequences, given.get("hx"))
        weight: Any = layer._flat_weights[0]
        precise = partial(in_precision, dtype=weight.dtype)
        sequences = sequences._replace(values=precise(sequences.values))
        # Autocast would lower the precision of a step's products, but not of the terms
        # that are added to them.
        with torch.autocast(weight.device.type, enabled=False):
            return self._run(layer, recorder, sequences, precise(h), precise(c))

    def _run(
        self,
        layer: nn.RNNBase,
        recorder: CallRecorder,
        sequences: _Sequences,
        h: Tensor,
        c: Tensor,
    ) -> Any:
        values, last_h, last_c = sequences.values, [], []
        for i in range(layer.num_layers):
            directions = [
                _run(layer, recorder, sequences._replace(values=values), i, d, h, c)
                for d in range(2 if layer.bidirectional else 1)
            ]
            values = torch.cat([run[0] for run in directions], 2)
            last_h += [run[1] for run in directions]
            last_c += [run[2] for run in directions]
            if i < layer.num_layers - 1:
                values = F.dropout(values, layer.dropout, layer.training)
        states = torch.stack(last_h)
        if layer.mode == "LSTM":
            return sequences.packed(values), (states, torch.stack(last_c))
        return sequences.packed(values), states


class _Sequences(NamedTuple):
    """Sequences, steps first, and the form of the input.

    Attributes:
        values: [T, B, I].
        active: [T, B, 1], 0 after the end of a sequence; None if all have T steps.
        lengths: Lengths of a packed input, [B].
        source: The packed input; None if the input is a tensor.
        batch_first: If True, a tensor input has the shape [B, T, I].
    """

    values: Tensor
    active: Tensor | None
    lengths: Tensor | None
    source: PackedSequence | None
    batch_first: bool

    def packed(self, values: Tensor) -> Tensor | PackedSequence:
        """Returns outputs [T, B, P] in the form of the inputs."""
        if self.source is None or self.lengths is None:
            return values.transpose(0, 1) if self.batch_first else values
        order = self.source.sorted_indices
        lengths = self.lengths
        if order is not None:
            values, lengths = values[:, order], lengths[order.cpu()]
        packed = pack_padded_sequence(values, lengths)
        return PackedSequence(
            packed.data, packed.batch_sizes, order, self.source.unsorted_indices
        )


def _unpacked(layer: nn.RNNBase, recorder: CallRecorder, given: Any) -> _Sequences:
    if isinstance(given, PackedSequence):
        values, lengths = pad_packed_sequence(given)
        _check(layer, recorder, values, batch_dim=1)
        steps = torch.arange(len(values)).unsqueeze(1)
        active = (steps < lengths).unsqueeze(2).to(values)
        return _Sequences(values, active, lengths, given, False)
    _check(layer, recorder, given, batch_dim=0 if layer.batch_first else 1)
    values = given.transpose(0, 1) if layer.batch_first else given
    return _Sequences(values, None, None, None, layer.batch_first)


def _check(
    layer: nn.RNNBase, recorder: CallRecorder, values: Any, batch_dim: int
) -> None:
    """Raises BadInputError unless these are a batch of sequences."""
    if not isinstance(values, Tensor) or values.dim() != 3:
        shape = list(values.shape) if isinstance(values, Tensor) else type(values)
        raise BadInputError(f"takes a batch of 3 dimensions or packed, got {shape}")
    if values.shape[2] != layer.input_size:
        raise BadInputError(
            f"takes {layer.input_size} values per time step, got {values.shape[2]}"
        )
    if values.shape[batch_dim] != recorder.batch_size:
        raise BadInputError(
            f"must see one row for each of the {recorder.batch_size} samples, got "
            f"shape {list(values.shape)} with batch_first={layer.batch_first}"
        )


def _initial_states(
    layer: nn.RNNBase, sequences: _Sequences, hx: Any
) -> tuple[Tensor, Tensor]:
    """Returns h [layers * directions, B, P] and c [layers * directions, B, H]."""
    x = sequences.values
    runs = layer.num_layers * (2 if layer.bidirectional else 1)
    shape = runs, x.shape[1], layer.proj_size or layer.hidden_size
    memory = runs, x.shape[1], layer.hidden_size
    if hx is None:
        return x.new_zeros(shape), x.new_zeros(memory)
    h, c = hx if layer.mode == "LSTM" else (hx, x.new_zeros(memory))
    for name, state, wanted in (("h_0", h, shape), ("c_0", c, memory)):
        if tuple(state.shape) != wanted:
            raise BadInputError(
                f"takes {name} of shape {list(wanted)}, got {list(state.shape)}"
            )
    return h, c


def _run(
    layer: nn.RNNBase,
    recorder: CallRecorder,
    sequences: _Sequences,
    i: int,
    direction: int,
    h: Tensor,
    c: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Runs one direction of layer i; returns outputs and last states."""
    suffix = f"_l{i}" + ("_reverse" if direction else "")
    names = [f"weight_{m}" for m in ("ih", "hh")]
    names += [f"bias_{m}" for m in ("ih", "hh")] if layer.bias else []
    part = LayerPart(
        layer, {n: n + suffix for n in names}, kind=f"{layer.mode}{suffix}"
    )
    projection = (
        LayerPart(layer, {"weight": f"weight_hr{suffix}"}) if layer.proj_size else None
    )
    weight_hr = None if projection is None else projection.weight.detach()
    cell = CELLS[layer.mode](part, weight_hr, sequences.active, bool(direction))
    first = i * (2 if layer.bidirectional else 1) + direction
    backprops = _GateBackprops(recorder, cell, part, projection, sequences.values)
    anchor = torch.empty(0, requires_grad=True)
    outputs: tuple[Tensor, Tensor, Tensor] = Run.apply(  # type: ignore[no-untyped-call]
        cell, backprops, anchor, sequences.values, h[first], c[first]
    )
    backprops.start()
    return outputs


class _GateBackprops:
    """Passes a cell's gradients to the recorded calls of its parameters."""

    def __init__(
        self,
        recorder: CallRecorder,
        cell: Cell,
        part: LayerPart,
        projection: LayerPart | None,
        x: Tensor,
    ) -> None:
        self._recorder, self._cell, self._x = recorder, cell, x
        self._part, self._projection = part, projection
        self._gates: Callable[[Tensor], None] | None = None
        self._projected: Callable[[Tensor], None] | None = None

    def start(self) -> None:
        """Records the calls, after the run has computed the states before each step."""
        steps = _samples_first(self._x), _samples_first(self._cell.hidden_before)
        rule = GatesRule()
        self._gates = self._recorder.add_call(rule, self._part, steps)
        if self._projection is not None and isinstance(self._cell, LSTMCell):
            unprojected = _samples_first(self._cell.unprojected)
            self._projected = self._recorder.add_call(
                LinearRule(), self._projection, unprojected
            )

    def __call__(self, gates: Tensor) -> None:
        if self._gates is not None:
            self._gates(_samples_first(gates))
        if self._projected is not None and isinstance(self._cell, LSTMCell):
            self._projected(_samples_first(self._cell.projected_gradients))


def _samples_first(values: Tensor) -> Tensor:
    return values.detach().transpose(0, 1).contiguous()

"""Records the calls inside a rewritten forward; see ``layers.rewrite.CallRecorder``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dpsgd_explorer.dp.engines.backprop_capture import start_graph
from dpsgd_explorer.dp.engines.recording import ForwardRecording
from dpsgd_explorer.dp.layers.base import BadInputError, GradientRule
from dpsgd_explorer.dp.layers.linear import LinearRule
from dpsgd_explorer.dp.layers.rewrite import (
    BackpropCallback,
    ExpandedRule,
    LayerPart,
)


class ForwardCallRecorder:
    """Records the inside of a rewritten forward; see layers.rewrite.CallRecorder."""

    def __init__(self, recording: ForwardRecording, name: str) -> None:
        self.batch_size = recording.batch_size
        self._recording, self._name = recording, name
        self._call = recording.next_call(name)
        self.is_trained = recording.is_trained

    def linear(self, part: LayerPart, inputs: Tensor, *, batch_dim: int = 0) -> Tensor:
        key = self._recording.add_call(
            self._name, LinearRule(), part, inputs.transpose(0, batch_dim), batch_dim
        )
        return self._recording.attach(key, _linear(part, inputs))

    def expanded(self, layer: nn.Module, name: str) -> Tensor:
        part = LayerPart(layer, {"value": name}, kind=name)
        copies = part.value.detach().expand(self.batch_size, *part.value.shape)
        key = self._recording.add_call(self._name, ExpandedRule(), part, ())
        return self._recording.attach(key, copies)

    def add_call(
        self, rule: GradientRule[Any, Any], part: nn.Module, activations: Any
    ) -> BackpropCallback:
        key = self._recording.add_call(self._name, rule, part, activations)
        return self._recording.callback(key)

    def batch_dim(
        self,
        label: str,
        shape: tuple[int, ...],
        dims: int,
        *,
        likely: int = 0,
    ) -> int | None:
        try:
            return self._recording.batch_dims.batch_dim(
                f"{self._call}.{label}",
                shape,
                self.batch_size,
                dims,
                may_share=True,
                likely=likely,
            )
        except BadInputError as error:
            raise self._recording.bad_input(self._name, error) from error

    def note_shared(self) -> None:
        self._recording.shared_layers.append(self._name)

    def knows_shapes(self, shapes: Mapping[str, tuple[int, ...]]) -> bool:
        dims, size = self._recording.batch_dims, self.batch_size
        known = [dims.is_known(f"{self._call}.{x}", shapes[x], size) for x in shapes]
        return all(known)


class ReplayCallRecorder:
    """Runs a checkpointed forward again in backward, as in the first run.

    Activation checkpointing discards a part's graph and rebuilds it in backward.  The
    rebuilt graph must begin at the nodes of the first graph.  Its calls are not
    recorded again.
    """

    def __init__(self, recording: ForwardRecording, name: str) -> None:
        self.batch_size = recording.batch_size
        self._batch_dims, self._call = recording.batch_dims, f"{name}#1"
        self.is_trained = recording.is_trained

    def linear(self, part: LayerPart, inputs: Tensor, *, batch_dim: int = 0) -> Tensor:
        return start_graph(_linear(part, inputs))

    def expanded(self, layer: nn.Module, name: str) -> Tensor:
        value = layer.get_parameter(name).detach()
        return start_graph(value.expand(self.batch_size, *value.shape))

    def add_call(
        self, rule: GradientRule[Any, Any], part: nn.Module, activations: Any
    ) -> BackpropCallback:
        return lambda gradient: None

    def batch_dim(
        self, label: str, shape: tuple[int, ...], dims: int, *, likely: int = 0
    ) -> int | None:
        return self._batch_dims.batch_dim(
            f"{self._call}.{label}",
            shape,
            self.batch_size,
            dims,
            may_share=True,
            likely=likely,
        )

    def note_shared(self) -> None:
        """Notes nothing, because the first run did."""

    def knows_shapes(self, shapes: Mapping[str, tuple[int, ...]]) -> bool:
        return True


def _linear(part: LayerPart, inputs: Tensor) -> Tensor:
    with torch.no_grad():
        weight, bias = part.weight, part.bias if "bias" in part.names else None
    return F.linear(inputs, weight.detach(), None if bias is None else bias.detach())

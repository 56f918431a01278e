"""What is kept of one forward pass until its backward."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dpsgd_explorer.dp.engines.backprop_capture import BackpropCapture, start_graph
from dpsgd_explorer.dp.engines.batch_dims import BatchDims
from dpsgd_explorer.dp.engines.coverage import Coverage
from dpsgd_explorer.dp.engines.layer_calls import Target
from dpsgd_explorer.dp.layers.base import BadInputError, GradientRule, LayerRule
from dpsgd_explorer.dp.layers.linear import LinearRule
from dpsgd_explorer.dp.layers.rewrite import BackpropCallback, ExpandedRule, LayerPart
from dpsgd_explorer.dp.modules.pytree import map_tensors, tensors_of
from dpsgd_explorer.errors import PrivacyError, UnsupportedModuleError


@dataclass(eq=False)
class PendingLayerCall:
    """One use, of which the gradient has not come back yet.

    Attributes:
        name: Of the layer, for messages and for the choice of a way.
        batch_dim: Where the samples are in the output.
        versions: Of the activations when they were kept.
    """

    name: str
    rule: GradientRule[Any, Any]
    layer: nn.Module
    activations: Any
    targets: dict[str, Target]
    parameters: dict[str, nn.Parameter]
    batch_dim: int
    versions: list[int]

    def check_unchanged(self) -> None:
        """Raise PrivacyError if an input was changed in place after its use."""
        if _versions(self.activations) != self.versions:
            raise PrivacyError(
                f"the input of {self.name or 'the module'} was changed in place after "
                "it was used; use the operation that returns a new tensor."
            )


class ForwardRecording:
    """The uses of one forward pass, and the taps that wait for their gradients.

    Args:
        coverage: Whose parameters are whose.
        layouts: Where the samples are.
        batch_size: B.
        deliver: Called when backward ends, with the uses whose gradient came.

    Attributes:
        shared_layers: Names of the layers with one output for all samples, to which a
            dimension of samples was added.
    """

    def __init__(
        self,
        coverage: Coverage,
        batch_dims: BatchDims,
        batch_size: int,
        deliver: Callable[[list[tuple[PendingLayerCall, Tensor]]], None],
    ) -> None:
        self.batch_size = batch_size
        self.taps = BackpropCapture(self._arrived)
        self.is_trained = coverage.is_trained
        self.shared_layers: list[str] = []
        self._coverage = coverage
        self.batch_dims = batch_dims
        self._deliver = deliver
        self._records: dict[str, PendingLayerCall] = {}
        self._calls: Counter[str] = Counter()

    def watch(self, name: str) -> ForwardCallRecorder:
        """Return the watch of the next call of a layer."""
        self._calls[name] += 1
        return ForwardCallRecorder(self, name, f"{name}#{self._calls[name]}")

    def bad_input(self, name: str, error: BadInputError) -> UnsupportedModuleError:
        """Return the exception that names the layer."""
        kind = type(self._coverage.layers[name]).__name__
        return UnsupportedModuleError(f"{name or 'the module'} ({kind}) {error}.")

    def has_seen(self, name: str) -> bool:
        """Whether a layer was called in this pass."""
        return name in self._calls

    def check(
        self, name: str, rule: GradientRule[Any, Any], args: Any, kwargs: Any
    ) -> None:
        """Raise UnsupportedModuleError if the layer does not take such inputs."""
        try:
            rule.check(self._coverage.layers[name], args, kwargs)
        except BadInputError as error:
            raise self.bad_input(name, error) from error

    def layer_call(
        self, name: str, rule: GradientRule[Any, Any], args: Any, kwargs: Any, out: Any
    ) -> Tensor:
        """Record a call of a layer; the returned tensor is its output from now on."""
        layer = self._coverage.layers[name]
        activations = rule.saved_activations(layer, args, kwargs)
        watch = self.watch(name)
        dim: int | None = 0
        if isinstance(rule, LayerRule):
            dims = rule.position_dims(layer, activations)
            shape = tuple(activations.shape)
            dim = watch.batch_dim("input", shape, max(1, dims), share=dims > 0)
            if dim is None:
                self.shared_layers.append(name)
            activations, out = _samples_first(activations, out, dim, self.batch_size)
        if out.shape[dim or 0] != self.batch_size and not self.batch_dims.learning:
            wrong = BadInputError(
                f"must give one row for each of the {self.batch_size} samples, got "
                f"shape {list(out.shape)}"
            )
            raise self.bad_input(name, wrong)
        return self.tap(self.keep(name, rule, layer, activations, dim or 0), out)

    def keep(
        self,
        name: str,
        rule: GradientRule[Any, Any],
        layer: nn.Module,
        activations: Any,
        batch_dim: int = 0,
    ) -> str:
        """Note a use and return its key."""
        activations = map_tensors(_detached, activations)
        targets, parameters = self._coverage.targets(name, layer)
        key = str(len(self._records))
        self._records[key] = PendingLayerCall(
            name,
            rule,
            layer,
            activations,
            targets,
            parameters,
            batch_dim,
            _versions(activations),
        )
        return key

    def tap(self, key: str, output: Tensor) -> Tensor:
        """Return the output, watched: its gradient belongs to this use."""
        if not self._records[key].targets:
            return output
        return self.taps.tap(key, output)

    def expect(self, key: str) -> BackpropCallback:
        """Return what takes the gradient of a use from an operation of our own."""
        if not self._records[key].targets:
            return lambda gradient: None
        return self.taps.expect(key)

    def _arrived(self, gradients: Mapping[str, Tensor]) -> None:
        pairs = []
        for key, gradient in gradients.items():
            record = self._records[key]
            record.check_unchanged()
            dim = record.batch_dim
            pairs.append((record, gradient.transpose(0, dim) if dim else gradient))
        self._records = {}
        self._deliver(pairs)


class ForwardCallRecorder:
    """What a rewritten forward shows its inside to; see layers.rewrite.Watch."""

    def __init__(self, recording: ForwardRecording, name: str, call: str) -> None:
        self.batch_size = recording.batch_size
        self._recording, self._name, self._call = recording, name, call
        self.is_trained = recording.is_trained

    def linear(self, part: LayerPart, inputs: Tensor, *, batch_dim: int = 0) -> Tensor:
        record = inputs.transpose(0, batch_dim)
        keep = self._recording.keep
        key = keep(self._name, LinearRule(), part, record, batch_dim)
        return self._recording.tap(key, _linear(part, inputs))

    def expanded(self, layer: nn.Module, name: str) -> Tensor:
        part = LayerPart(layer, {"value": name}, kind=name)
        copies = part.value.detach().expand(self.batch_size, *part.value.shape)
        key = self._recording.keep(self._name, ExpandedRule(), part, ())
        return self._recording.tap(key, copies)

    def add_call(
        self, rule: GradientRule[Any, Any], part: nn.Module, activations: Any
    ) -> BackpropCallback:
        key = self._recording.keep(self._name, rule, part, activations)
        return self._recording.expect(key)

    def batch_dim(
        self,
        label: str,
        shape: tuple[int, ...],
        dims: int,
        *,
        likely: int = 0,
        share: bool = True,
    ) -> int | None:
        try:
            return self._recording.batch_dims.batch_dim(
                f"{self._call}.{label}",
                shape,
                self.batch_size,
                dims,
                may_share=share,
                likely=likely,
            )
        except BadInputError as error:
            raise self._recording.bad_input(self._name, error) from error


class ReplayCallRecorder:
    """Lets a checkpointed forward run again in backward as it ran before.

    Gradients are asked for where they were, and nothing is recorded a second time.
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


def _samples_first(
    inputs: Tensor, output: Tensor, dim: int | None, size: int
) -> tuple[Tensor, Tensor]:
    """Bring the samples of the inputs to the front; give each its own shared row."""
    if dim is not None:
        return inputs.transpose(0, dim) if dim else inputs, output
    if inputs.shape[0] != 1:
        inputs, output = inputs.unsqueeze(0), output.unsqueeze(0)
    rows = [size, *[-1] * (inputs.dim() - 1)], [size, *[-1] * (output.dim() - 1)]
    return inputs.expand(rows[0]), output.expand(rows[1])


def _linear(part: LayerPart, inputs: Tensor) -> Tensor:
    with torch.no_grad():
        weight, bias = part.weight, part.bias if "bias" in part.names else None
    return F.linear(inputs, weight.detach(), None if bias is None else bias.detach())


def _detached(leaf: Any) -> Any:
    return leaf.detach() if isinstance(leaf, Tensor) else leaf


def _versions(activations: Any) -> list[int]:
    return [leaf._version for leaf in tensors_of(activations)]

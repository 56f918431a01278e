"""Saves the activations of every layer call in one forward pass, until its backward.

This is the first part of book-keeping.  A recording stores the activations of each call
(x, [B, T, d], which torch saves as well), and a :class:`BackpropCapture` receives the
gradient of the output (g, [B, T, p]).  When backward ends, the recording delivers the
pairs (x, g).

Source: Bu et al. (2022), arXiv:2210.00038 (book-keeping).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor, nn

from dpsgd_explorer.dp.backends import backend_of
from dpsgd_explorer.dp.backends.full_precision import full_precision
from dpsgd_explorer.dp.backends.precision import (
    accumulation_dtype,
    in_precision,
)
from dpsgd_explorer.dp.engines.backprop_capture import (
    BackpropCapture,
    Reduce,
)
from dpsgd_explorer.dp.engines.batch_dims import BatchDims
from dpsgd_explorer.dp.engines.coverage import Coverage
from dpsgd_explorer.dp.engines.layer_calls import TrainedParameters
from dpsgd_explorer.dp.engines.norm_choice import CallSpecs, specs_of
from dpsgd_explorer.dp.layers.base import BadInputError, GradientRule, LayerRule
from dpsgd_explorer.dp.layers.rewrite import (
    BackpropCallback,
    EarlyGradientsRule,
)
from dpsgd_explorer.dp.modules.pytree import map_tensors, tensors_of
from dpsgd_explorer.errors import PrivacyError, UnsupportedModuleError

#: Computes a layer's gradients, {local name: [B, *shape]}, from activations and
#: backprops.
EarlyGradients = Callable[[nn.Module, Any, Tensor], dict[str, Tensor]]


@dataclass(eq=False)
class PendingLayerCall:
    """One layer call whose output gradient has not arrived yet.

    Attributes:
        name: The layer's name, for messages and for its clipping mode.
        rule: The rule of the layer.
        layer: The module, or a part of one.
        activations: The tensors that the rule saved, samples first.
        trained: The trained parameters of the layer.
        batch_dim: The dimension of the output that counts the samples.
        versions: Version counters of the activations when they were saved.
        early: Computes the gradients of the layer when backprops arrive; None if
            backprops are stored until backward ends.
        specs: Specs of activations and backprops, if these are not stored.
    """

    name: str
    rule: GradientRule[Any, Any]
    layer: nn.Module
    activations: Any
    trained: TrainedParameters
    batch_dim: int
    versions: list[int]
    early: EarlyGradients | None = None
    specs: CallSpecs | None = None

    @property
    def reduction(self) -> Reduce | None:
        """Reduction of backprops before they are stored; None stores them unchanged."""
        return None if self.early is None else self.compute_gradients

    def compute_gradients(self, backprops: Tensor) -> Tensor:
        """Replaces activations by gradients; returns a tensor in place of backprops."""
        assert self.early is not None
        self.check_unchanged()
        backprops = backprops.transpose(0, self.batch_dim)
        self.specs = specs_of(self.activations, backprops)
        parameter = next(iter(self.trained.parameters.values()))
        precise = partial(in_precision, dtype=accumulation_dtype(parameter.dtype))
        inputs = map_tensors(precise, (self.activations, backprops))
        with full_precision():
            gradients = self.early(self.layer, *inputs)
        if gradients.keys() != self.trained.targets.keys():
            raise PrivacyError(
                f"the rule of {self.name or 'the module'} computed gradients of "
                f"{sorted(gradients)}, but {sorted(self.trained.targets)} are trained. "
                "Do not change requires_grad between forward and backward."
            )
        self.rule, self.activations, self.batch_dim = EarlyGradientsRule(), gradients, 0
        self.versions = _versions(gradients)
        return next(iter(gradients.values()))

    def check_unchanged(self) -> None:
        """Raises PrivacyError if an input was changed in place after the call."""
        if _versions(self.activations) != self.versions:
            raise PrivacyError(
                f"the input of {self.name or 'the module'} was changed in place after "
                "it was used. Use the operation that returns a new tensor."
            )


class ForwardRecording:
    """The layer calls of one forward pass, in order, until their backprops arrive.

    Args:
        coverage: Rules and trained parameters of the layers.
        batch_dims: Batch dimensions of the inputs.
        batch_size: B.
        deliver: Called when backward ends, with (call, backprops [B, ...]) of each call
            whose gradient arrived.
        whole: If True, layers have their parameters in backward, as unsharded layers
            do.

    Attributes:
        capture: Collects the output gradients.
        shared_layers: Names of the layers with one output for all samples, which the
            recording expanded to B rows.
    """

    def __init__(
        self,
        coverage: Coverage,
        batch_dims: BatchDims,
        batch_size: int,
        deliver: Callable[[list[tuple[PendingLayerCall, Tensor]]], None],
        *,
        whole: bool = True,
    ) -> None:
        self.batch_size = batch_size
        self.capture = BackpropCapture(self._finish)
        self.is_trained = coverage.is_trained
        self.shared_layers: list[str] = []
        self._coverage = coverage
        self.batch_dims = batch_dims
        self._deliver, self._whole = deliver, whole
        self._failed: str | None = None
        self._pending: dict[str, PendingLayerCall] = {}
        self._call_counts: dict[str, int] = {}

    def next_call(self, name: str) -> str:
        """Returns the name of the next call of a layer: "layer#number"."""
        number = self._call_counts[name] = self._call_counts.get(name, 0) + 1
        return f"{name}#{number}"

    def bad_input(self, name: str, error: BadInputError) -> UnsupportedModuleError:
        """Returns an exception that names the layer."""
        self.note_failure(name)
        kind = type(self._coverage.layers[name]).__name__
        return UnsupportedModuleError(f"{name or 'the module'} ({kind}) {error}.")

    def note_failure(self, name: str) -> None:
        """Notes the layer in which a pass has failed; the innermost comes first."""
        self._failed = self._failed or name

    def place(self) -> str | None:
        """Returns the layer that is the likely cause if the pass has failed."""
        return self._failed or next(reversed(self.shared_layers), None)

    def has_seen(self, name: str) -> bool:
        """Returns True if a layer was called in this pass."""
        return name in self._call_counts

    def layer_call(
        self, name: str, rule: GradientRule[Any, Any], args: Any, kwargs: Any, out: Any
    ) -> Tensor:
        """Records the call of a whole layer; the caller must use the returned output.

        Raises:
            BadInputError: the samples have no dimension in the input or the output.
        """
        layer = self._coverage.layers[name]
        activations = rule.saved_activations(layer, args, kwargs)
        call = self.next_call(name)
        dim: int | None = 0
        dims = 0
        if isinstance(rule, LayerRule):
            dims = rule.position_dims(layer, activations)
            dim = self.batch_dims.batch_dim(
                f"{call}.input",
                activations.shape,
                self.batch_size,
                max(1, dims),
                may_share=dims > 0,
                folds=dims > 0,
            )
            if dim is None:
                self.shared_layers.append(name)
            if dim != 0:
                activations, out = _samples_first(
                    activations, out, dim, self.batch_size
                )
        if out.shape[dim or 0] != self.batch_size:
            if dim == 0 and dims and _is_folded(activations, out, self.batch_size):
                rows = self.batch_size, -1
                key = self.add_call(name, rule, layer, activations.unflatten(0, rows))
                return self.attach(key, out.unflatten(0, rows)).flatten(0, 1)
            if not self.batch_dims.learning:
                raise BadInputError(
                    f"must give one row for each of the {self.batch_size} samples, got "
                    f"shape {list(out.shape)}"
                )
        return self.attach(self.add_call(name, rule, layer, activations, dim or 0), out)

    def add_call(
        self,
        name: str,
        rule: GradientRule[Any, Any],
        layer: nn.Module,
        activations: Any,
        batch_dim: int = 0,
    ) -> str:
        """Saves a call's activations, if they are needed, and returns its key."""
        trained = self._coverage.trained(layer)
        early: EarlyGradients | None = None
        if rule.bias_needs_no_activations and trained.targets.keys() == {"bias"}:
            early, activations = rule.per_sample_gradients, ()
        elif self._whole and rule.computes_early():
            early = rule.per_sample_gradients
        activations = map_tensors(
            _as_computed if rule.of_low_precision else _detached, activations
        )
        key = str(len(self._pending))
        self._pending[key] = PendingLayerCall(
            name,
            rule,
            layer,
            activations,
            trained,
            batch_dim,
            _versions(activations),
            early,
        )
        return key

    def attach(self, key: str, output: Tensor) -> Tensor:
        """Returns the output of a call with a capture of its gradient."""
        call = self._pending[key]
        if not call.trained.targets:
            return output
        return self.capture.attach(key, output, call.reduction)

    def callback(self, key: str) -> BackpropCallback:
        """Returns the function to call with the gradient of a call's output."""
        call = self._pending[key]
        if not call.trained.targets:
            return lambda gradient: None
        return self.capture.callback(key, call.reduction)

    def _finish(self, gradients: Mapping[str, Tensor]) -> None:
        pairs = []
        for key, gradient in gradients.items():
            call = self._pending[key]
            call.check_unchanged()
            dim = call.batch_dim
            pairs.append((call, gradient.transpose(0, dim) if dim else gradient))
        self._pending = {}
        self._deliver(pairs)


def _samples_first(
    inputs: Tensor, output: Tensor, dim: int | None, size: int
) -> tuple[Tensor, Tensor]:
    """Moves the samples of the inputs to the front; expands a shared input to B rows.

    A shared input [T, d] and its output become views [B, T, ...], so that the gradient
    of the output has one row per sample.
    """
    if dim is not None:
        return inputs.transpose(0, dim) if dim else inputs, output
    if inputs.shape[0] != 1:
        inputs, output = inputs.unsqueeze(0), output.unsqueeze(0)
    rows = [size, *[-1] * (inputs.dim() - 1)], [size, *[-1] * (output.dim() - 1)]
    return inputs.expand(rows[0]), output.expand(rows[1])


def _is_folded(activations: Any, output: Tensor, size: int) -> bool:
    """Returns True if the first dimension counts several rows of each sample."""
    return (
        isinstance(activations, Tensor)
        and size > 0
        and activations.shape[0] == output.shape[0]
        and output.shape[0] % size == 0
    )


def _detached(leaf: Any) -> Any:
    return leaf.detach() if isinstance(leaf, Tensor) else leaf


def _as_computed(leaf: Tensor) -> Tensor:
    return backend_of(leaf).as_computed(leaf.detach())


def _versions(activations: Any) -> list[int]:
    if isinstance(activations, Tensor):
        return [activations._version]
    return [leaf._version for leaf in tensors_of(activations)]

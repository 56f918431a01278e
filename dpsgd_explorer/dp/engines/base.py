"""The interface of a gradient engine, and of the per-sample gradients that it delivers.

A step has two sides.  The engine runs along with the module's forward and backward and
delivers one :class:`PerSampleGradients` when backward ends.  Clipping reads norms [B]
from that object, computes factors w [B] from them, and calls ``add_weighted`` to add
sum_i w_i g_i:

    squared = gradients.squared_norms()       # {unit: [B]}
    weights = {unit: factors(norms) ...}      # {unit: [B]}
    gradients.add_weighted(weights, sums)     # into {unit: {name: shape}}

Per-sample gradients, [B, *shape] per parameter, need not exist in memory.

Source: Abadi et al. (2016), arXiv:1607.00133, algorithm 1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar, NotRequired, Self, TypedDict

from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from dpsgd_explorer.dp.backends import backend_of
from dpsgd_explorer.dp.checks.loss.marks import ModulePass, PassOutputs, mark_outputs
from dpsgd_explorer.dp.checks.loss.reading import LossReading
from dpsgd_explorer.dp.engines.norm_choice import (
    ClippingMode,
    NormChoice,
    check_layer_names,
)
from dpsgd_explorer.dp.modules.input_rows import InputRows
from dpsgd_explorer.dp.modules.pytree import tensors_of
from dpsgd_explorer.dp.modules.structure import Structure
from dpsgd_explorer.errors import PrivacyError

#: (unit, local name) of a parameter; see ``unit_of``.
ParameterKey = tuple[str, str]
#: A part of the gradients, after the parameters that it covers.
ParameterPart = tuple[frozenset[ParameterKey], "PerSampleGradients"]
#: {unit: {local name of a parameter: tensor of its shape}}; see ``unit_of``.
GradientSums = Mapping[str, Mapping[str, Tensor]]
#: A unit, and squared norms [B] of some of its gradients.
NormTerm = tuple[str, Tensor]


class PerSampleGradients(ABC):
    """The gradients g_1 .. g_B of one backward pass, materialized or not.

    g_i is the gradient of the loss of sample i: the factor 1 / B of a mean over the
    batch and the scale of a ``GradScaler`` are removed.

    Attributes:
        leaves_out: If True, a weight of 0 excludes a sample on asynchronous devices,
            even if its gradient contains infinity or NaN.
    """

    leaves_out: ClassVar[bool] = False

    @abstractmethod
    def __len__(self) -> int:
        """Returns B."""

    @abstractmethod
    def norm_terms(self) -> list[NormTerm]:
        """Returns (unit, squared L2 norms [B]) of disjoint parts of the gradients.

        A squared norm is at least the squared norm of the vector that ``add_weighted``
        adds for the sample at weight 1, rounding included: it is never too small.
        """

    def squared_norms(self) -> dict[str, Tensor]:
        """Returns {unit: squared L2 norms over its trainable parameters, [B]}."""
        return added_by_unit(self.norm_terms())

    @abstractmethod
    def add_weighted(self, weights: Mapping[str, Tensor], sums: GradientSums) -> None:
        """Adds sum_i weights[unit][i] * g_i to ``sums``, in place.

        Args:
            weights: {unit: clipping factors, [B]}.
            sums: The clipped sum so far.
        """

    @abstractmethod
    def materialize(self) -> dict[str, Tensor]:
        """Returns {parameter's name in the module: gradients, [B, *shape]}."""

    @abstractmethod
    def take(self, index: Tensor) -> Self:
        """Returns the gradients of the samples with these indices, in this order."""

    def split(self) -> tuple[Self | None, Iterator[Self]]:
        """Returns the gradients of small parameters, and chunks of the others.

        Returns:
            (whole, chunks): ``whole`` has all B samples of the parameters whose
            gradients fit in memory together; None if there are no such parameters.
            Each chunk has consecutive samples of the other parameters.
        """
        return None, iter((self,))

    def by_parameters(self, keys: Collection[ParameterKey]) -> list[ParameterPart]:
        """Returns parts; a part has all gradients of its parameters.

        Args:
            keys: (unit, local name) of all trainable parameters.
        """
        return [(frozenset(keys), self)]


def added_by_unit(terms: Iterable[NormTerm]) -> dict[str, Tensor]:
    """Returns {unit: sum of its squared norms, [B]}, added in float64."""
    parts: dict[str, list[Tensor]] = {}
    for unit, values in terms:
        parts.setdefault(unit, []).append(values)
    return {
        unit: norms[0] if len(norms) == 1 else backend_of(norms[0]).sum_of(norms)
        for unit, norms in parts.items()
    }


def full_name(layer: str, parameter: str) -> str:
    """Returns the parameter's name in ``named_parameters`` of the whole module."""
    return f"{layer}.{parameter}" if layer and parameter else layer or parameter


def unit_of(layer: str, parameter: str, by_parameter: bool) -> tuple[str, str]:
    """Returns the (unit, local name) under which norms and sums are stored.

    A unit is what gets a norm of its own: a layer, or with ``by_parameter`` a single
    parameter.  ("fc", "bias") stays ("fc", "bias") or becomes ("fc.bias", "").
    """
    return (full_name(layer, parameter), "") if by_parameter else (layer, parameter)


GradientsCallback = Callable[[PerSampleGradients], None]
LossCallback = Callable[[LossReading, int], None]
LOSS_REDUCTIONS = ("mean", "sum")


class EngineOptions(TypedDict):
    """Keyword arguments of every gradient engine; see ``GradientEngine``."""

    clipping_mode: ClippingMode
    loss_reduction: str
    by_parameter: NotRequired[bool]


class GradientEngine(ABC):
    """Observes a module's passes and delivers the per-sample gradients of each.

    Args:
        module: The model; its passes are observed between ``start`` and ``stop``.
        clipping_mode: A key of CLIPPING_MODES, or {layer's name: such a key}.
        loss_reduction: "mean" or "sum": how the user's loss combines the samples.
        by_parameter: If True, every parameter is a unit with its norm; otherwise every
            layer is.

    Attributes:
        input_rows: Finds the inputs of the module that have one row per sample.
        on_gradients: Called with the per-sample gradients when a backward ends;
            ``microbatch`` calls it once per sample.
        before_forward: Called with (args, kwargs, B) before each observed forward, if
            set.
        verified: The structure for which the safety check has passed; None after the
            module has changed.
        outputs: The outputs of the last pass.
        user_loss_scale: Returns the factor on the user's losses, as of a GradScaler.
        on_loss: Called at each backward with the reading of the loss's graph and B.
        on_failure: Called with the pass if its backward ends with an exception.
        current_pass: The last pass that gradients may come from; None before it.
        releases_in_backward: If True, the noisy gradient is due when backward ends, and
            not at the optimizer's step.
        runs_alone: If True, samples run one by one, and every sample draws the random
            numbers that the module would draw for the whole batch.
        runs_parts_alone: If True, samples run through parts of the module one by one.
        fault: Name of the module inside whose pass failed, or whose gradients are
            wrong; None if no pass failed, or if the place is unknown.
    """

    releases_in_backward: ClassVar[bool] = False
    runs_alone: bool = False
    runs_parts_alone: bool = False
    fault: str | None = None

    def __init__(
        self,
        module: nn.Module,
        *,
        clipping_mode: ClippingMode,
        loss_reduction: str,
        by_parameter: bool = False,
    ) -> None:
        check_layer_names(clipping_mode, module)
        self.module = module
        self.input_rows = InputRows(module)
        self.clipping_mode = clipping_mode
        self.loss_reduction = loss_reduction
        self.by_parameter = by_parameter
        self.on_gradients: GradientsCallback = _reject_gradients
        self.before_forward: Callable[[Any, Any, int], None] | None = None
        self.verified: Structure | None = None
        self.outputs = PassOutputs()
        self.user_loss_scale: Callable[[], float] = unit_loss_scale
        self.on_loss: LossCallback = ignore_loss
        self.on_failure: Callable[[object], None] = _ignore_failure
        self.current_pass: ModulePass | None = None

    @abstractmethod
    def parameters(self) -> dict[str, dict[str, nn.Parameter]]:
        """Returns {unit: {local name: trainable parameter}}.

        Raises:
            UnsupportedModuleError: the engine does not support a trainable parameter.
        """

    @abstractmethod
    def start(self) -> None:
        """Installs the hooks or the forward patch; passes are observed from now on."""

    @abstractmethod
    def stop(self) -> None:
        """Removes the hooks or the forward patch that ``start`` installed."""

    def explain(self) -> list[NormChoice]:
        """Returns the norm method of each layer call of the last pass; [] if none."""
        return []

    @property
    def rules(self) -> Mapping[str, object]:
        """Rule of each layer, by the layer's name; {} without rules."""
        return {}

    def remedy(self, error: Exception) -> str:
        """Returns the remedy if the module fails on the inputs of the safety check."""
        return (
            "Pass example_inputs and loss_fn that fit together, and create inputs that "
            "cannot be random (offsets, lengths, indices) inside the module."
        )

    def adapt(self) -> bool:
        """Runs the module in another way after a failed safety check.

        Returns:
            False if there is no other way; the engine then runs the module as at first.
        """
        return False

    def learning_batch_dims(self) -> AbstractContextManager[None]:
        """Returns a context that learns batch dimensions from passes of two sizes."""
        return nullcontext()

    def with_norm_method(self, mode: str) -> AbstractContextManager[None]:
        """Returns a context in which all layers use one clipping mode, if they can."""
        return nullcontext()

    def begin_pass(self, args: Any, kwargs: Any) -> int:
        """Checks that a pass may be observed, and return B.

        Raises:
            PrivacyError: the set of trainable parameters has changed since ``start``,
                or no input has the samples in its first dimension.
        """
        # The full comparison walks the module tree; a verified structure needs none.
        if self.verified is None or not self.verified.holds():
            self._check_trainable()
            self.verified = None
        size = batch_size_of(args, kwargs)
        if self.before_forward is not None:
            self.before_forward(args, kwargs, size)
        return size

    def _check_trainable(self) -> None:
        attached = {p for unit in self.parameters().values() for p in unit.values()}
        if trainable_parameters(self.module) != attached:
            named = self.module.named_parameters()
            new = [name for name, p in named if p.requires_grad and p not in attached]
            raise PrivacyError(
                "the trainable parameters must stay the same while the engine is "
                f"attached; {', '.join(new) or 'some'} changed. Detach the engine and "
                "attach it again."
            )

    def watch_loss(self, outputs: Any, size: int) -> None:
        """Marks the outputs of this pass, so that the graph of its loss can be read.

        Call it after the engine has registered its hooks on the outputs.
        """
        self.outputs.remember(outputs)
        # The lambda reads the attribute at backward, because a user may set another
        # scale after this forward.
        self.current_pass = ModulePass(
            size,
            self.loss_reduction,
            lambda: self.user_loss_scale(),
            self._backward_failed,
        )
        mark_outputs(outputs, self.current_pass)

    def restore(self) -> None:
        """Undoes the temporary changes of a pass to the module, after an interrupt."""
        return None

    def _backward_failed(self, failed: object) -> None:
        self.restore()
        self.on_failure(failed)

    def report_loss(self) -> bool:
        """Reports the reading of the last pass's loss to ``on_loss``.

        Returns:
            True if the gradients of the pass must be delivered; False if the backward
            computes gradients of other tensors.
        """
        if self.current_pass is None:
            return True
        if not self.current_pass.is_trained:
            return False
        self.on_loss(self.current_pass.reading, self.current_pass.size)
        return True

    def gradient_scale(self, batch_size: int) -> float:
        """Returns the factor from gradients of the user's loss to per-sample gradients.

        A mean over B samples divides every loss by B, and a GradScaler multiplies it by
        s: the factor is B / s.  B = 256 and s = 65,536 give 2^-8.
        """
        samples = float(batch_size) if self.loss_reduction == "mean" else 1.0
        return samples / self.user_loss_scale()


def trainable_parameters(module: nn.Module) -> set[nn.Parameter]:
    """Returns the parameters that require a gradient.

    It runs at each unverified pass.  ``module.parameters()`` would also build the name
    of every parameter.
    """
    trainable: set[nn.Parameter] = set()
    seen, queue = {module}, [module]
    for current in queue:
        parameters = [p for p in current._parameters.values() if p is not None]
        trainable.update(p for p in parameters if p.requires_grad)
        new = [m for m in current._modules.values() if m is not None and m not in seen]
        seen.update(new)
        queue += new
    return trainable


def batch_size_of(args: Any, kwargs: Any) -> int:
    """Returns B: the first dimension of the first tensor among a module's inputs.

    Raises:
        PrivacyError: no input has a dimension that counts the samples.
    """
    for value in (*args, *kwargs.values()):
        if isinstance(value, PackedSequence):
            raise PrivacyError(
                "the module must be called with one row for each sample; a "
                "PackedSequence has one row for each step. Call the module with padded "
                "sequences and their lengths, and pack them inside its forward. Pass "
                "total_length to pad_packed_sequence there, because otherwise the "
                "result depends on the longest sequence of the batch."
            )
    for argument in (*args, kwargs):
        for leaf in tensors_of(argument):
            if leaf.dim() > 0:
                return leaf.shape[0]
    raise PrivacyError(
        "the module must be called with a tensor whose first dimension counts the "
        "samples; its inputs contain no such tensor."
    )


def unit_loss_scale() -> float:
    """Returns 1, the scale of a loss without a ``GradScaler``."""
    return 1.0


def ignore_loss(reading: LossReading, size: int) -> None:
    """Finishes the reading of a loss whose gradients are not used for training."""
    reading.settle()


def _ignore_failure(failed: object) -> None:
    """Ignores the failure, since there is no sum to undo."""


def _reject_gradients(gradients: PerSampleGradients) -> None:
    raise PrivacyError(
        "gradients arrived, but no engine is attached. Call engine.attach(optimizer) "
        "before backward."
    )

"""What the ways of getting at per-sample gradients have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar, Self

from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from dpsgd_explorer.dp.engines.norm_methods import (
    ClippingMode,
    NormChoice,
    check_layer_names,
)
from dpsgd_explorer.dp.engines.pass_outputs import Outputs
from dpsgd_explorer.dp.losses.marks import ModulePass, mark_outputs
from dpsgd_explorer.dp.losses.reading import LossReading
from dpsgd_explorer.dp.modules.input_rows import InputRows
from dpsgd_explorer.dp.modules.pytree import tensors_of
from dpsgd_explorer.dp.modules.structure import Structure
from dpsgd_explorer.errors import PrivacyError

GradientSums = Mapping[str, Mapping[str, Tensor]]
"""{layer, or unit of one: {parameter's local name: tensor of its shape}}."""


class PerSampleGradients(ABC):
    """The gradients of B samples, however they are held.

    All values belong to each sample's own loss: a mean over the batch is undone.
    """

    @abstractmethod
    def __len__(self) -> int:
        """Return B."""

    @abstractmethod
    def squared_norms(self) -> dict[str, Tensor]:
        """Return {layer: squared norm over its trainable parameters, [B]}."""

    @abstractmethod
    def add_weighted_gradients(
        self, weights: Mapping[str, Tensor], sums: GradientSums
    ) -> None:
        """Add sum_i weights[layer][i] * gradient_i to the sums."""

    @abstractmethod
    def per_sample_gradients(self) -> dict[str, Tensor]:
        """Return {parameter's full name: [B, *shape]}."""

    @abstractmethod
    def take(self, index: Tensor) -> Self:
        """Return the samples at these positions, in this order."""

    def split_by_memory(self) -> tuple[Self | None, Iterator[Self]]:
        """Return the parameters in two parts, the second of them in pieces.

        The gradients of the first part, if there is one, fit in memory for all samples
        at once; those of the second for the samples of a piece.
        """
        return None, iter((self,))


def full_name(layer: str, parameter: str) -> str:
    """Return the parameter's name in ``named_parameters`` of the whole module."""
    return f"{layer}.{parameter}" if layer and parameter else layer or parameter


def unit_of(layer: str, parameter: str, by_parameter: bool) -> tuple[str, str]:
    """Return the (unit, local name) under which norms and sums are kept.

    A unit is a layer, or a single parameter where layers are divided by blocks.
    """
    return (full_name(layer, parameter), "") if by_parameter else (layer, parameter)


GradientsCallback = Callable[[PerSampleGradients], None]
LossCallback = Callable[[LossReading, int], None]
LOSS_REDUCTIONS = ("mean", "sum")


class GradientEngine(ABC):
    """Watches a module's passes and hands the samples of each backward on.

    Args:
        module: The model; between ``start`` and ``stop`` its forward is watched.
        clipping_mode: A key of CLIPPING_MODES, or {layer's name: such a key}.
        loss_reduction: How the user's loss joins the samples of a batch.
        by_parameter: Whether norms are wanted for each parameter, not each layer.

    Attributes:
        input_rows: Which inputs of the module have one row for each sample.
        receive: Called at the end of each backward with its samples.
        before_forward: Called with (args, kwargs) before each recorded forward, if
            there is one.
        proven: The structure of which the safety check has proven what it proves, None
            if that of the module is another.
        outputs: What the last pass returned.
        user_loss_scale: Called for what the user's losses are multiplied with.
        on_loss: Called at each backward with what was read in the graph of its loss,
            and the number of samples.
        releases_in_backward: Whether the noisy gradient is due when backward ends, and
            not at the optimizer's step.
    """

    releases_in_backward: ClassVar[bool] = False

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
        self.on_gradients: GradientsCallback = _refuse
        self.before_forward: Callable[[Any, Any], None] | None = None
        self.verified: Structure | None = None
        self.outputs = Outputs()
        self.user_loss_scale: Callable[[], float] = unit_loss_scale
        self.on_loss: LossCallback = ignored
        self._pass: ModulePass | None = None

    @abstractmethod
    def parameters(self) -> dict[str, dict[str, nn.Parameter]]:
        """Return {layer, or unit of one: {local name: trainable parameter}}.

        Raises:
            UnsupportedModuleError: a trainable parameter is out of reach.
        """

    @abstractmethod
    def start(self) -> None:
        """Begin to watch."""

    @abstractmethod
    def stop(self) -> None:
        """Leave the module as it was."""

    def explain(self) -> list[NormChoice]:
        """Return how the norms of the last pass were made; [] if by no choice."""
        return []

    def remedy(self, error: Exception) -> str:
        """Return what to do when the module fails on the safety check's inputs."""
        return (
            "Give the engine example_inputs and loss_fn that fit together, and make "
            "what cannot be random (offsets, lengths, indices) inside the module."
        )

    def learning_batch_dims(self) -> AbstractContextManager[None]:
        """Let passes of different sizes tell where the samples are, meanwhile."""
        return nullcontext()

    def prepare(self, args: Any, kwargs: Any) -> int:
        """Check that a pass may be recorded, and return its number of samples.

        Raises:
            PrivacyError: other parameters are trainable than when it started.
        """
        if self.verified is None or not self.verified.holds():
            self._check_trainable()
            self.verified = None
        if self.before_forward is not None:
            self.before_forward(args, kwargs)
        return batch_size_of(args, kwargs)

    def _check_trainable(self) -> None:
        known = {p for own in self.parameters().values() for p in own.values()}
        if trainable_parameters(self.module) != known:
            every = self.module.named_parameters()
            new = [name for name, p in every if p.requires_grad and p not in known]
            raise PrivacyError(
                "the trainable parameters must stay what they were when the engine was "
                f"attached; {', '.join(new) or 'some'} changed. Detach the engine and "
                "attach it again."
            )

    def watch_loss(self, outputs: Any, size: int) -> None:
        """Have the graph read that leads from the loss of this pass to its outputs."""
        self._pass = ModulePass(
            size, self.loss_reduction, lambda: self.user_loss_scale()
        )
        mark_outputs(outputs, self._pass)

    def report_loss(self) -> None:
        """Hand on what was read of the loss of the last pass."""
        if self._pass is not None:
            self.on_loss(self._pass.reading, self._pass.size)

    def gradient_scale(self, batch_size: int) -> float:
        """Return what turns a gradient of the user's loss into a sample's own."""
        samples = float(batch_size) if self.loss_reduction == "mean" else 1.0
        return samples / self.user_loss_scale()


def trainable_parameters(module: nn.Module) -> set[nn.Parameter]:
    """Return what ``parameters()`` would of those that want a gradient.

    The tree is walked without names, which is quicker.
    """
    found: set[nn.Parameter] = set()
    seen, rest = {module}, [module]
    for each in rest:
        own = [p for p in each._parameters.values() if p is not None]
        found.update(p for p in own if p.requires_grad)
        new = [m for m in each._modules.values() if m is not None and m not in seen]
        seen.update(new)
        rest += new
    return found


def batch_size_of(args: Any, kwargs: Any) -> int:
    """Return the first dimension of the first tensor among a module's inputs.

    Raises:
        PrivacyError: no input has the samples in a dimension of its own.
    """
    if any(isinstance(each, PackedSequence) for each in (*args, *kwargs.values())):
        raise PrivacyError(
            "the module must be called with one row for each sample; a PackedSequence "
            "has one for each step. Call it with padded sequences and their lengths, "
            "and pack them inside its forward, where pad_packed_sequence needs "
            "total_length, or the result depends on the batch's longest."
        )
    for argument in (*args, kwargs):
        for leaf in tensors_of(argument):
            if leaf.dim() > 0:
                return len(leaf)
    raise PrivacyError(
        "the module must be called with a tensor whose first dimension counts the "
        "samples; there was none among its inputs."
    )


def unit_loss_scale() -> float:
    """Return the scale of a loss that is not scaled."""
    return 1.0


def ignored(reading: LossReading, size: int) -> None:
    """Take no notice of a loss, as where gradients are only looked at."""


def _refuse(samples: PerSampleGradients) -> None:
    raise PrivacyError("gradients arrived, but no engine is attached to take them.")

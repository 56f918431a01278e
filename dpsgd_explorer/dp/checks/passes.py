"""Runs passes of a module on random inputs, which the safety check compares.

Every pass draws equal random numbers, and begins with equal stored values of the
module.  Afterwards the generators and the stored values are restored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from dpsgd_explorer.dp.checks.controlled_draws import HALF_DTYPES, ControlledDraws
from dpsgd_explorer.dp.checks.draw_patterns import ALL_DRAWN
from dpsgd_explorer.dp.checks.gradient_parts import Samples, largest_entry
from dpsgd_explorer.dp.checks.loss.marks import mark_linear
from dpsgd_explorer.dp.checks.loss.target import labels_of
from dpsgd_explorer.dp.clipping.clipper import Clipper
from dpsgd_explorer.dp.distributed.ranks import ALONE, Ranks
from dpsgd_explorer.dp.engines.base import (
    GradientEngine,
    GradientsCallback,
    batch_size_of,
    ignore_loss,
    unit_loss_scale,
)
from dpsgd_explorer.dp.modules import probe_inputs
from dpsgd_explorer.dp.modules.input_rows import SharedInput, call_module
from dpsgd_explorer.dp.modules.probe_inputs import SEED
from dpsgd_explorer.dp.modules.pytree import tensors_of
from dpsgd_explorer.dp.modules.state import ModuleState, restored
from dpsgd_explorer.errors import ExplorerError, UnsupportedModuleError

LossFunction = Callable[[Any, Any], Tensor]

#: Largest relative difference of equal gradients.  Round-off in float32 is far below
#: it; a statistic of the batch changes gradients by more.
TOLERANCE = 1e-3
#: Largest relative difference in a dtype of lower precision, in units of its eps.
TOLERANCE_EPS = 8
#: Attributes of a gradient engine that the check replaces.
CALLBACKS = ("on_gradients", "before_forward", "on_loss", "user_loss_scale")
#: Errors that a module may raise on random inputs.
MODULE_ERRORS = RuntimeError, ValueError, TypeError, LookupError, AttributeError


class CheckPasses:
    """Runs one module under one gradient engine; see SafetyCheck for the arguments."""

    def __init__(
        self,
        gradient_engine: GradientEngine,
        clipper: Clipper,
        args: Any,
        kwargs: Any,
        ranks: Ranks = ALONE,
        *,
        loss_fn: LossFunction | None = None,
        targets: Any = None,
    ) -> None:
        self._gradient_engine = gradient_engine
        self._module = gradient_engine.module
        self._clipper = clipper
        self._call = (args, kwargs)
        self._ranks = ranks
        self._size = batch_size_of(args, kwargs)
        self._dtypes = _dtypes(self._module)
        self._loss_fn = loss_fn
        self._targets = targets
        self._labels: dict[int, int] | None = None

    @property
    def _tolerance(self) -> float:
        """The largest relative difference that round-off explains."""
        dtypes = self._dtypes | self._draws.low_dtypes
        return max([TOLERANCE, *(TOLERANCE_EPS * torch.finfo(d).eps for d in dtypes)])

    @contextmanager
    def _session(self) -> Iterator[None]:
        """Allows passes in the context, and restores the module at the end."""
        gradient_engine = self._gradient_engine
        with undisturbed(gradient_engine) as self._state, ExitStack() as at_end:
            self._draws = ControlledDraws(self._module, SEED)
            at_end.callback(self._draws.restore)
            with explained_errors(gradient_engine):
                self._call = gradient_engine.input_rows.wrap_shared(
                    self._call, self._size
                )
            yield

    def _run(self, call: Any, targets: Any, on_gradients: GradientsCallback) -> None:
        """Runs forward and backward, from the module's original stored values."""
        self._state.restore()
        expected = None
        if self._gradient_engine.runs_parts_alone:
            expected = self._outputs(call)
            self._state.restore()
        self._gradient_engine.on_gradients = on_gradients
        with self._pass(call):
            outputs = call_module(self._module, call)
            if expected is not None:
                self._check_outputs(outputs, expected)
            loss = self._loss(outputs, call, targets)
            if not loss.requires_grad:
                self._gradient_engine.fault = self._first_layer()
                raise UnsupportedModuleError(
                    "at least one trained parameter must reach the loss through the "
                    "forward of its layer. Call the layers instead of using their "
                    'weights, or use engine="vmap" or "microbatch".'
                )
            loss.backward()  # type: ignore[no-untyped-call]

    def _check_outputs(self, outputs: Any, expected: Any) -> None:
        """Compares the outputs of a pass with those of a pass without the engine.

        The engine may run a part of the module on single samples.  If the part mixes
        samples, its gradients are those of another function.
        """
        has_draws = self._draws.drew and self._draws.pattern is not None
        if has_draws and self._gradient_engine.runs_alone:
            return  # single samples draw other numbers than the batch
        pairs = zip(tensors_of(outputs), tensors_of(expected), strict=True)
        for output, other in pairs:
            if not other.is_floating_point():
                continue
            largest = largest_entry(other.float().nan_to_num())
            if not torch.allclose(
                output.float(),
                other.float(),
                rtol=self._tolerance,
                atol=self._tolerance * largest,
                equal_nan=True,
            ):
                raise UnsupportedModuleError(
                    "the module must give the same outputs for a batch and for its "
                    "samples alone, got other outputs: it mixes the samples of a "
                    "batch. Replace the layer that mixes them."
                )

    def _first_layer(self) -> str:
        named = self._module.named_parameters()
        return next(name for name, p in named if p.requires_grad).rpartition(".")[0]

    def _samples(self, call: Any, targets: Any) -> Samples:
        """Returns the per-sample gradients of a pass."""
        received: Samples = []
        self._run(call, targets, received.append)
        # The engine's callback would keep the gradients alive until the next pass.
        self._gradient_engine.on_gradients = _drop
        return received

    @contextmanager
    def _pass(self, call: Any) -> Iterator[None]:
        """Sets the module's random draws, and explains the errors that it raises."""
        size = batch_size_of(*call)
        with (
            explained_errors(self._gradient_engine, self._when),
            self._draws.of_pass(size),
        ):
            yield

    def _when(self) -> str:
        """Returns how random numbers are set, a possible cause of an error."""
        pattern = self._draws.pattern
        if pattern is None:
            return " with its random numbers at their means" * self._draws.drew_means
        return "" if pattern == ALL_DRAWN else f" when random numbers {pattern}"

    def _loss(self, outputs: Any, call: Any, targets: Any) -> Tensor:
        if self._loss_fn is not None:
            loss = self._loss_fn(outputs, targets)
            if loss.dim():
                raise UnsupportedModuleError(
                    "the loss must be one number for the batch, a mean or a sum over "
                    f"samples, got shape {list(loss.shape)}. Reduce it in loss_fn."
                )
            return loss
        scale = self._gradient_engine.gradient_scale(batch_size_of(*call))
        loss = probe_inputs.linear_loss(outputs, targets, scale)
        if all(leaf.dim() for leaf in tensors_of(outputs)):
            mark_linear(loss)  # a scalar would be a loss of the module, with its graph
        return loss

    def _size_message(self) -> str:
        reduction = self._gradient_engine.loss_reduction
        message = (
            "a sample's gradient must not depend on the batch size. Either the loss is "
            f"not a {reduction} over samples, which loss_reduction requires, or the "
            "module uses the number of samples."
        )
        if self._draws.unknown:
            names = ", ".join(sorted(self._draws.unknown))
            message += (
                f" Or the only cause is randomness: the module draws with {names}, and "
                "the safety check cannot repeat these draws at another batch size. "
                "Draw with torch.rand, torch.randn or torch.randint instead."
            )
        return message

    def _random_call(self, seed: int, scale: float = 1.0) -> Any:
        if self._labels is None:
            with self._without_engine(), self._draws.at(None), self._pass(self._call):
                self._labels = labels_of(self._module, self._call, self._size)
        return probe_inputs.random_call(
            self._module, self._call, self._size, seed, scale, self._labels
        )

    @contextmanager
    def _without_engine(self) -> Iterator[None]:
        """Stops the gradient engine in the context."""
        try:
            self._gradient_engine.stop()
        except KeyboardInterrupt:
            self._gradient_engine.stop()  # the interrupt may have left a part of it
            self._gradient_engine.start()
            raise
        try:
            yield
        finally:
            self._gradient_engine.start()

    def _outputs(self, call: Any) -> Any:
        """Returns the module's outputs, without gradients."""
        with torch.no_grad(), self._pass(call):
            return call_module(self._module, call)

    def _random_targets(self, call: Any) -> Any:
        outputs = self._outputs(call)
        if self._loss_fn is None:
            return probe_inputs.random_slopes(outputs)
        return probe_inputs.random_targets(self._targets, self._size, outputs)


def compare_sizes(gradient_engine: GradientEngine, call: Any, fewer: Any) -> None:
    """Runs forward passes of two batch sizes, which show the batch dimensions.

    Args:
        gradient_engine: The engine, which compares the shapes of the passes.
        call: (args, kwargs) of the module.
        fewer: (args, kwargs) with fewer samples.
    """
    with gradient_engine.learning_batch_dims():
        # The first size runs again, since the batch dimension of a layer decides the
        # shapes of later layers.
        more = [fewer] if gradient_engine.runs_parts_alone else []
        for inputs in (call, fewer, call, *more):
            call_module(gradient_engine.module, inputs)


def _dtypes(module: nn.Module) -> set[torch.dtype]:
    """Returns the dtypes of the parameters and of an autocast around the module."""
    dtypes = {p.dtype for p in module.parameters() if p.is_floating_point()}
    for device in {p.device.type for p in module.parameters()}:
        if torch.is_autocast_enabled(device):
            dtypes.add(torch.get_autocast_dtype(device))
    return dtypes


def in_float32(tree: Any) -> Any:
    """Returns the tree with all bfloat16 and float16 tensors converted to float32."""
    return tree_map(_leaf_in_float32, tree)


def _leaf_in_float32(leaf: Any) -> Any:
    if isinstance(leaf, SharedInput):
        return SharedInput(_leaf_in_float32(leaf.value))
    is_half = isinstance(leaf, Tensor) and leaf.dtype in HALF_DTYPES
    return leaf.float() if is_half else leaf


def _drop(gradients: object) -> None:
    """Ignores the gradients of a pass."""


@contextmanager
def explained_errors(
    gradient_engine: GradientEngine, when: Callable[[], str] = str
) -> Iterator[None]:
    """Explains an error that the module raises on the random inputs of the check.

    Args:
        gradient_engine: The engine, which names a remedy.
        when: Returns how the check has set random numbers.

    Raises:
        UnsupportedModuleError: the context raised one of MODULE_ERRORS.
    """
    try:
        yield
    except (ExplorerError, torch.OutOfMemoryError):
        raise
    except MODULE_ERRORS as error:
        reason = f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
        remedy = gradient_engine.remedy(error)
        raise UnsupportedModuleError(
            "the safety check cannot run the module on random inputs of these shapes, "
            f"dtypes and ranges of ids{when()} ({reason}). {remedy}"
        ) from error


@contextmanager
def undisturbed(gradient_engine: GradientEngine) -> Iterator[ModuleState]:
    """Yields a copy of the module's stored values, and restores everything at the end.

    The state of the module (see ``restored``) and the callbacks of the engine are
    restored also after an error.
    """
    callbacks = {name: getattr(gradient_engine, name) for name in CALLBACKS}
    cudnn_enabled = torch.backends.cudnn.enabled
    try:
        gradient_engine.before_forward = None
        gradient_engine.user_loss_scale = unit_loss_scale
        gradient_engine.on_loss = ignore_loss
        # In evaluation mode the recurrent layers of cuDNN have no backward.
        torch.backends.cudnn.enabled = False
        with restored(gradient_engine.module) as state, torch.enable_grad():
            yield state
    finally:
        torch.backends.cudnn.enabled = cudnn_enabled
        for name, callback in callbacks.items():
            setattr(gradient_engine, name, callback)

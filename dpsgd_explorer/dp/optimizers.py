"""The changes that a run makes to optimizers and ``param.grad`` while it is attached.

Hooks on an optimizer, or on the parameters, set the private gradients.  Between
backward and ``step()`` the engine holds the clipped sum, which has no noise yet.  Code
that runs between them, such as ``clip_grad_norm_`` in most trainers, would silently do
nothing if ``param.grad`` were None.  ``param.grad`` is therefore a placeholder: a
tensor with the shape of the gradient and without memory.  Every operation on a
placeholder raises an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from inspect import Parameter, signature
from operator import is_
from types import MethodType
from typing import Any, NoReturn

import torch
from torch import Tensor, nn
from torch.amp import GradScaler
from torch.optim import Optimizer

from dpsgd_explorer.dp.distributed.sharding import as_shard_of, is_shard, local
from dpsgd_explorer.errors import ConfigError, PrivacyError

FOREIGN_GRADIENT = (
    "a parameter has a gradient that did not go through the engine, for example from a "
    "penalty in the loss or from a layer called separately. Use weight_decay of the "
    "optimizer instead of a penalty, and call the whole module."
)
#: Maximum number of nested wrappers around an optimizer; it ends a cycle of wrappers.
MAX_WRAPPERS = 10


def unwrapped_optimizer(given: Any) -> Optimizer:
    """Returns the torch optimizer inside a wrapper, such as accelerate's.

    A wrapper calls ``step`` of the inner optimizer, whose hooks the engine uses.

    Raises:
        ConfigError: there is no torch optimizer inside, or its steps need a closure.
    """
    optimizer = given
    for _ in range(MAX_WRAPPERS):
        inner = getattr(optimizer, "optimizer", None)
        if inner is None or inner is optimizer:
            break
        optimizer = inner
    # A wrapper may be a subclass that never called the constructor of Optimizer.
    if not (
        isinstance(optimizer, Optimizer)
        and hasattr(optimizer, "_optimizer_step_pre_hooks")
    ):
        raise ConfigError(
            "optimizer",
            "attach() must get optimizers of torch (torch.optim.Optimizer), got "
            f"{type(given).__name__}. Pass the torch optimizer of the model's "
            "parameters; if a library has wrapped it, pass the inner optimizer.",
        )
    closure = signature(type(optimizer).step).parameters.get("closure")
    if closure is not None and closure.default is Parameter.empty:
        raise ConfigError(
            "optimizer",
            "optimizer must use one gradient per step, got "
            f"{type(optimizer).__name__}, which evaluates the loss several times per "
            "step. Use another optimizer, such as SGD or Adam.",
        )
    return optimizer


class OptimizerBinding:
    """Calls functions before each step and after each zero_grad of an optimizer.

    For steps it uses a step pre-hook of torch.  Learning-rate schedulers, which replace
    ``step``, may therefore be created before or after the binding.

    Args:
        optimizer: A torch optimizer.
        before_step: Called with the optimizer before each step, to set the gradients.
        cleared: Called with the optimizer after the gradients were dropped.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        before_step: Callable[[Optimizer], None],
        cleared: Callable[[Optimizer], None],
    ) -> None:
        self.optimizer = optimizer
        self._before_step = before_step
        self._cleared = cleared
        self._handle = optimizer.register_step_pre_hook(self._on_step)
        self._zero_grad = optimizer.zero_grad
        self._instance_zero_grad = vars(optimizer).get("zero_grad")
        optimizer.zero_grad = MethodType(self._clear, optimizer)  # type: ignore[method-assign]

    def release(self) -> None:
        """Restores the optimizer."""
        self._handle.remove()
        del self.optimizer.zero_grad
        if self._instance_zero_grad is not None:
            self.optimizer.zero_grad = self._instance_zero_grad  # type: ignore[method-assign]

    def _on_step(
        self, optimizer: Optimizer, args: Any, kwargs: dict[str, Any]
    ) -> tuple[Any, dict[str, Any]] | None:
        """Runs the closure of a step, if there is one, before the private gradients.

        Torch passes the optimizer as the first argument of ``step``.  An optimizer that
        calls the closure again would use records that the step does not count.

        Returns:
            The arguments of the step, with the result of the closure in its place.

        Raises:
            PrivacyError: an argument of the step is no function.
        """
        closures = [
            value
            for value in (*args, *kwargs.values())
            if value is not None and value is not optimizer
        ]
        if not closures:
            self._before_step(self.optimizer)
            return None
        if len(closures) > 1 or not callable(closures[0]):
            raise PrivacyError(
                "step must be called with no argument or with a closure, got "
                f"{', '.join(type(value).__name__ for value in closures)}."
            )
        with torch.enable_grad():
            result = _ClosureResult(closures[0]())
        self._before_step(self.optimizer)
        (closure,) = closures
        return (
            tuple(result if value is closure else value for value in args),
            {n: result if value is closure else value for n, value in kwargs.items()},
        )

    def _clear(self, optimizer: Optimizer, set_to_none: bool = True) -> None:
        """Sets the gradients to None, also if ``set_to_none`` is False."""
        self._zero_grad(set_to_none=True)
        self._cleared(self.optimizer)


class _ClosureResult:
    """Takes the place of a closure that has run; an optimizer may call it once.

    Args:
        loss: The result of the closure.
    """

    def __init__(self, loss: Any) -> None:
        self._loss, self._was_called = loss, False

    def __call__(self) -> Any:
        """Returns the result of the closure.

        Raises:
            PrivacyError: the optimizer calls it a second time.
        """
        if self._was_called:
            raise PrivacyError(
                "a closure must run once per step, and the optimizer has called it "
                "twice: a second pass would use records that the step does not count. "
                "Use an optimizer with one gradient per step, such as SGD or Adam."
            )
        self._was_called = True
        return self._loss


class ScalerBinding:
    """Raises an error with a remedy if a GradScaler steps in the middle of a batch.

    Torch's error would only mention that no inf checks were recorded.

    Args:
        scaler: The argument ``grad_scaler`` of the engine.
    """

    def __init__(self, scaler: GradScaler) -> None:
        self._scaler = scaler
        self._step = scaler.step
        scaler.step = self._checked_step  # type: ignore[method-assign]

    def release(self) -> None:
        """Restores the scaler, also if another engine has restored it before."""
        vars(self._scaler).pop("step", None)

    def _checked_step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        if all(parameter.grad is None for parameter in parameters):
            raise PrivacyError(
                "GradScaler.step() must be called after the last part of a batch, got "
                "a batch that awaits more parts or a backward call. With "
                "physical_batch_size, call scaler.step(optimizer), scaler.update() and "
                "optimizer.zero_grad() only if a parameter's gradient is not None."
            )
        return self._step(optimizer, *args, **kwargs)


class BackwardBinding:
    """Rejects every gradient that autograd writes to ``param.grad``.

    It is for engines that set private gradients in backward.  They have no hook on the
    optimizer, so ``param.grad`` must be private at all times.

    Args:
        parameters: All trained parameters.
    """

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        self._handles = [
            parameter.register_post_accumulate_grad_hook(_reject)  # type: ignore[no-untyped-call]
            for parameter in parameters
        ]

    def release(self) -> None:
        """Removes the hooks from the parameters."""
        for handle in self._handles:
            handle.remove()


def _reject(parameter: Tensor) -> None:
    parameter.grad = None
    raise PrivacyError(FOREIGN_GRADIENT)


PENDING_GRADIENT_USED = (
    "param.grad must not be used between backward and optimizer.step(): it becomes "
    "private in step(), which adds up the clipped gradients and adds noise. Switch "
    "clipping by the trainer (clip_grad_norm_) off, because max_grad_norm of the "
    "engine bounds every sample (transformers: max_grad_norm=0, Lightning: "
    "gradient_clip_val=None). To use the noisy gradient, read param.grad after step(), "
    "change it in a step pre-hook of the optimizer that is registered after attach(), "
    'or pass engine="extending", whose param.grad is private when backward ends. A '
    "GradScaler needs that engine too, and grad_scaler=scaler."
)


class PendingGradient(Tensor):
    """A tensor without memory; every operation on it raises PrivacyError."""

    @staticmethod
    def __new__(cls, parameter: Tensor) -> PendingGradient:
        """Returns a placeholder of the parameter's shape, type and device."""
        return torch.Tensor._make_wrapper_subclass(
            cls, parameter.shape, dtype=parameter.dtype, device=parameter.device
        )

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> NoReturn:
        """Rejects every operation."""
        raise PrivacyError(PENDING_GRADIENT_USED)

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        return f"PendingGradient(shape={list(self.shape)}, private after step())"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)

    def _reject(self, *_: Any) -> NoReturn:
        raise PrivacyError(PENDING_GRADIENT_USED)

    # Torch would raise errors without the reason for these methods.
    numpy = tolist = item = _reject  # type: ignore[assignment]


class PendingGradients:
    """The placeholders for the gradients of a logical batch.

    Args:
        parameters: All trained parameters.

    Attributes:
        are_placed: If True, the engine has put the placeholders into ``param.grad`` and
            not taken them out.  User code may have dropped some.
    """

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        self._placeholders = {p: _placeholder(p) for p in parameters}
        self.are_placed = False

    def place(self) -> None:
        """Puts a placeholder into every ``param.grad`` that is None."""
        if self.are_placed or not self._placeholders:
            return
        self.are_placed = True
        try:
            self._place()
        except RuntimeError:  # the parameters were moved to another dtype or device
            self._placeholders = {p: _placeholder(p) for p in self._placeholders}
            self._place()

    def _place(self) -> None:
        for parameter, placeholder in self._placeholders.items():
            if parameter.grad is None:
                parameter.grad = placeholder

    def take_out(self) -> None:
        """Replaces each placeholder in ``param.grad`` by None."""
        if not self.are_placed:
            return
        self.are_placed = False
        for parameter, placeholder in self._placeholders.items():
            if parameter.grad is placeholder:
                parameter.grad = None

    def replace(self, gradients: Mapping[nn.Parameter, Tensor]) -> None:
        """Puts private gradients into ``param.grad`` and ``param.private_grad``."""
        for parameter, gradient in gradients.items():
            parameter.private_grad = gradient  # type: ignore[attr-defined]
            parameter.grad = gradient
        self.are_placed = False

    def are_intact(self) -> bool:
        """Returns True if all placed placeholders are still in ``param.grad``."""
        gradients = [parameter.grad for parameter in self._placeholders]
        placeholders = self._placeholders.values()
        return not self.are_placed or all(map(is_, gradients, placeholders))

    def dropped(self) -> int:
        """Returns the number of parameters without a placeholder or a gradient."""
        return sum(parameter.grad is None for parameter in self._placeholders)


def _placeholder(parameter: nn.Parameter) -> Tensor:
    placeholder = PendingGradient(local(parameter))
    return as_shard_of(parameter, placeholder) if is_shard(parameter) else placeholder


class WaitingGradients:
    """Private gradients that an optimizer has not used yet.

    Args:
        gradients: {parameter: private gradient} of the optimizer's parameters.
    """

    def __init__(self, gradients: Mapping[nn.Parameter, Tensor]) -> None:
        self._gradients = gradients
        self._pending = PendingGradients(gradients)
        self._pending.place()

    def use(self) -> bool:
        """Puts the gradients into ``param.grad``.

        Returns:
            True if they are there; False if ``zero_grad`` has dropped them.

        Raises:
            PrivacyError: ``param.grad`` has a gradient that did not go through the
                engine.
        """
        is_intact, dropped = self._pending.are_intact(), self._pending.dropped()
        self.discard()
        if not is_intact and not dropped:
            raise PrivacyError(FOREIGN_GRADIENT)
        if is_intact:
            self._pending.replace(self._gradients)
        return is_intact

    def discard(self) -> None:
        """Takes the placeholders out of ``param.grad``."""
        self._pending.take_out()

"""Hooks on an optimizer, or on the parameters, through which gradients are set."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from inspect import Parameter, signature
from types import MethodType
from typing import Any

from torch import Tensor, nn
from torch.amp import GradScaler
from torch.optim import Optimizer

from dpsgd_explorer.errors import ConfigError, PrivacyError

FOREIGN_GRADIENT = (
    "a parameter has a gradient that did not go through the engine, for example from a "
    "penalty in the loss or from a layer called separately. Use weight_decay of the "
    "optimizer instead of a penalty, and call the whole module."
)
#: Wrappers inside of each other are unwrapped to this depth.
MAX_WRAPPERS = 10


def unwrapped_optimizer(given: Any) -> Optimizer:
    """Returns the optimizer of torch inside a wrapper such as accelerate's.

    A wrapper calls ``step`` of the optimizer inside, whose hooks the engine uses.

    Raises:
        ConfigError: there is no optimizer of torch, or its steps need a closure.
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
    """Calls back before each step and at each zero_grad of an optimizer.

    The optimizer's own hooks are used for the step, so that learning-rate schedulers,
    which replace ``step`` themselves, may be made before or after.

    Args:
        optimizer: Any of torch.optim.
        before_step: Called with the optimizer before each step, to set its gradients.
        cleared: Called with the optimizer after its gradients were dropped.
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
        """Leave the optimizer as it was."""
        self._handle.remove()
        del self.optimizer.zero_grad
        if self._instance_zero_grad is not None:
            self.optimizer.zero_grad = self._instance_zero_grad  # type: ignore[method-assign]

    def _on_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        # torch passes the optimizer itself as the first argument of step.
        passed = (*args, *kwargs.values())
        if [each for each in passed if each is not None and each is not optimizer]:
            raise PrivacyError(
                "step must be called without a closure, which would use the data "
                "several times per step. Call backward, then step()."
            )
        self._before_step(self.optimizer)

    def _clear(self, optimizer: Optimizer, set_to_none: bool = True) -> None:
        """Drop the gradients, also where a tensor of zeros was asked for."""
        self._zero_grad(set_to_none=True)
        self._cleared(self.optimizer)


class ScalerBinding:
    """Names the remedy where a GradScaler steps in the middle of a batch.

    torch's own error only says that no inf checks were recorded.

    Args:
        scaler: The scaler, given to the engine as ``grad_scaler``.
    """

    def __init__(self, scaler: GradScaler) -> None:
        self._scaler = scaler
        self._step = scaler.step
        scaler.step = self._checked_step  # type: ignore[method-assign]

    def release(self) -> None:
        """Leave the scaler as it was, also if another engine has released it."""
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
    """Refuses every gradient that autograd itself would put into ``param.grad``.

    The optimizer has no hook here, so ``param.grad`` must be private at all times.

    Args:
        parameters: All trained parameters.
    """

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        self._handles = [
            parameter.register_post_accumulate_grad_hook(_refuse)  # type: ignore[no-untyped-call]
            for parameter in parameters
        ]

    def release(self) -> None:
        """Leave the parameters as they were."""
        for handle in self._handles:
            handle.remove()


def _refuse(parameter: Tensor) -> None:
    parameter.grad = None
    raise PrivacyError(FOREIGN_GRADIENT)

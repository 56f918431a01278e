"""Hooks on an optimizer, or on the parameters, through which gradients are set."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import MethodType
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from dpsgd_explorer.errors import PrivacyError


class OptimizerBinding:
    """Calls back before each step and at each zero_grad of an optimizer.

    The optimizer's own hooks are used for the step, so that learning-rate schedulers,
    which replace ``step`` themselves, may be made before or after.

    Args:
        optimizer: Any of torch.optim.
        before_step: Called before each step, to set its gradients.
        cleared: Called after the gradients were dropped.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        before_step: Callable[[], None],
        cleared: Callable[[], None],
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
                "step must be called without a closure: it would see the data several "
                "times for one step. Call backward, then step()."
            )
        self._before_step()

    def _clear(self, optimizer: Optimizer, set_to_none: bool = True) -> None:
        """Drop the gradients, also where a tensor of zeros was asked for."""
        self._zero_grad(set_to_none=True)
        self._cleared()


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
    raise PrivacyError(
        "a parameter has a gradient that did not go through the engine, as from a "
        "penalty in the loss or a layer called on its own. Use the optimizer's "
        "weight_decay, and call the whole module."
    )

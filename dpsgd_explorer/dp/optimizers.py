"""What a run changes in optimizers and in ``param.grad`` while it is attached.

Hooks on an optimizer, or on the parameters, set the gradients.  Between backward and
``step()`` the clipped sum is inside the engine, without noise.  If ``param.grad`` were
None there, code that runs in between, as ``clip_grad_norm_`` in most trainers, would
find no gradients and do nothing, without a word.  A stand-in has the shape of the
gradient and no entries; each operation on it raises an error.
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


MESSAGE = (
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
    """A tensor without memory that raises PrivacyError wherever it is used."""

    @staticmethod
    def __new__(cls, parameter: Tensor) -> PendingGradient:
        """Return a stand-in of the parameter's shape, type and device."""
        return torch.Tensor._make_wrapper_subclass(
            cls, parameter.shape, dtype=parameter.dtype, device=parameter.device
        )

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> NoReturn:
        """Refuse every operation."""
        raise PrivacyError(MESSAGE)

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        return f"PendingGradient(shape={list(self.shape)}, private after step())"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)

    def _refuse(self, *_: Any) -> NoReturn:
        raise PrivacyError(MESSAGE)

    # Torch has errors of its own for these, which do not say why.
    numpy = tolist = item = _refuse  # type: ignore[assignment]


class PendingGradients:
    """The stand-ins of a logical batch.

    Args:
        parameters: All trained parameters.

    Attributes:
        are_placed: If True, they were put into ``param.grad`` and not taken out again.
    """

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        self._parameters = list(parameters)
        self._stand_ins = [_stand_in(p) for p in self._parameters]
        self.are_placed = False

    def place(self) -> None:
        """Put a stand-in wherever there is no gradient."""
        if self.are_placed or not self._parameters:
            return
        self.are_placed = True
        try:
            self._place()
        except RuntimeError:  # the parameters have another type or device meanwhile
            self._stand_ins = [_stand_in(p) for p in self._parameters]
            self._place()

    def _place(self) -> None:
        for parameter, stand_in in zip(self._parameters, self._stand_ins, strict=True):
            if parameter.grad is None:
                parameter.grad = stand_in

    def take_out(self) -> None:
        """Leave None in the place of each stand-in."""
        if not self.are_placed:
            return
        self.are_placed = False
        for parameter, stand_in in zip(self._parameters, self._stand_ins, strict=True):
            if parameter.grad is stand_in:
                parameter.grad = None

    def forget(self) -> None:
        """Record that gradients have taken the place of all stand-ins."""
        self.are_placed = False

    def are_intact(self) -> bool:
        """Return True if all stand-ins are where they were put, or none was put."""
        gradients = [parameter.grad for parameter in self._parameters]
        return not self.are_placed or all(map(is_, gradients, self._stand_ins))

    def dropped(self) -> int:
        """Return the number of parameters without a stand-in or a gradient."""
        return sum(parameter.grad is None for parameter in self._parameters)


def _stand_in(parameter: nn.Parameter) -> Tensor:
    stand_in = PendingGradient(local(parameter))
    return as_shard_of(parameter, stand_in) if is_shard(parameter) else stand_in


class WaitingGradients:
    """Private gradients that an optimizer has not used yet.

    Args:
        gradients: Of its parameters.
    """

    def __init__(self, gradients: Mapping[nn.Parameter, Tensor]) -> None:
        self.gradients = gradients
        self._pending = PendingGradients(gradients)
        self._pending.place()

    def take(self) -> bool:
        """Take the stand-ins out; return False if zero_grad had dropped them.

        Raises:
            PrivacyError: a gradient came that did not go through the engine.
        """
        is_intact, dropped = self._pending.are_intact(), self._pending.dropped()
        self.discard()
        if not is_intact and not dropped:
            raise PrivacyError(FOREIGN_GRADIENT)
        return is_intact

    def discard(self) -> None:
        """Take the stand-ins out."""
        self._pending.take_out()

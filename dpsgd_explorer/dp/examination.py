"""Lists everything that keeps a model and its loss from private training."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dpsgd_explorer.dp import choices
from dpsgd_explorer.dp.checks.passes import LossFunction
from dpsgd_explorer.dp.checks.repairs import make_private_ready
from dpsgd_explorer.dp.config import ENGINES, check_example, check_module
from dpsgd_explorer.dp.engine import PrivacyEngine
from dpsgd_explorer.dp.engines.hooks import HooksEngine
from dpsgd_explorer.dp.layers import rule_for
from dpsgd_explorer.dp.modules.refused import reasons_by_kind
from dpsgd_explorer.dp.modules.state import ModuleState
from dpsgd_explorer.dp.taken import is_held
from dpsgd_explorer.errors import PrivacyError, UnsupportedModuleError
from dpsgd_explorer.validation import one_of

#: Any valid plan: the check does not depend on it.
PLAN: dict[str, Any] = {
    "sample_size": 1000,
    "batch_size": 1,
    "steps": 1,
    "noise_multiplier": 1.0,
}
NOT_RUN = (
    "not checked: whether the model or the loss mixes samples. Repair what is named "
    "above, and call examine again."
)
ATTACHED = (
    "not checked: the model, because an engine is attached to it. Call detach() of "
    "that engine first, or examine a copy."
)
LOSS_NOT_RUN = (
    "not checked: whether the loss alone mixes samples. Repair the model, and call "
    "examine again."
)


def examine(
    model: nn.Module,
    example_inputs: tuple[Any, Any],
    loss_fn: LossFunction,
    *,
    engine: choices.Engine = "hooks",
    loss_reduction: choices.LossReduction = "mean",
) -> list[str]:
    """Returns the reasons why the engine would reject a model or its loss.

    ``PrivacyEngine.attach`` and ``make_private`` raise the first reason; this function
    collects all of them.  It names all modules whose type or settings are not
    supported.  Then it runs the safety check of the engine, if necessary on a copy
    repaired by ``make_private_ready``.  If several modules mix samples, the result
    names the first one: call ``examine`` again after a repair.  A message that begins
    with "not checked" names a check that could not run.

    Args:
        model: The model; parameters with ``requires_grad`` are trained.  The model is
            not changed.
        example_inputs: A batch ``(inputs, targets)``, inputs of shape ``(B, ...)``.
            The check uses shapes and dtypes, not values.
        loss_fn: ``loss_fn(outputs, targets)``, the loss of the training.
        engine: "hooks", "extending", "vmap" or "microbatch": how per-sample gradients
            are computed; see ``Execution``.
        loss_reduction: "mean" or "sum": the reduction of the loss over the samples.

    Returns:
        One message per reason, with its remedy; an empty list if the engine accepts
        model and loss.

    Raises:
        ConfigError: an argument is outside its domain; ``field`` of the error is the
            argument's name.

    Example:
        >>> from torch import nn, randn
        >>> from dpsgd_explorer import dp
        >>> model = nn.Sequential(
        ...     nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)
        ... )
        >>> reasons = dp.examine(model, (randn(8, 3), randn(8, 1)), nn.MSELoss())
        >>> [reason.split(" normalizes")[0] for reason in reasons]
        ['1 (BatchNorm1d)']
    """
    check_module(model)
    check_example(example_inputs, loss_fn)
    one_of("engine", engine, ENGINES)
    if is_held(model):
        return [ATTACHED]
    reasons = [*_reasons_by_kind(model, engine)]
    trial = _repaired(model, engine) if reasons else model
    if trial is None:
        return [*reasons, NOT_RUN]
    options: dict[str, Any] = {"engine": engine, "loss_reduction": loss_reduction}
    with _undisturbed(model):
        reasons += _measured(trial, example_inputs, loss_fn, options)
        if trial is not model and any(p.grad is not None for p in model.parameters()):
            reasons.append(NOT_RUN)  # the loss reads the model, and not its copy
    return reasons


def _repaired(model: nn.Module, engine: str) -> nn.Module | None:
    """Return a copy without reasons by kind, or None if there is none."""
    try:
        trial = make_private_ready(deepcopy(model), tell=_nobody)
    except Exception:  # a layer without sizes, or a model that cannot be copied
        return None
    return None if any(_reasons_by_kind(trial, engine)) else trial


def _measured(
    model: nn.Module,
    example: tuple[Any, Any],
    loss_fn: LossFunction,
    options: dict[str, Any],
) -> list[str]:
    """Return the reasons that show when model and loss run."""
    inputs, targets = example
    args = inputs if isinstance(inputs, tuple) else (inputs,)
    of_both = _first_reason(model, args, (targets, loss_fn), **options)
    if of_both is None:
        return []
    of_the_model = _first_reason(model, args, **options)
    if of_the_model is None:
        return [of_both]
    reasons: list[str | None] = [of_both, of_the_model]
    outputs = _outputs(model, args)
    if isinstance(outputs, Tensor) and outputs.is_floating_point():
        reasons.append(
            _first_reason(Scale(), (outputs,), (targets, loss_fn), **options)
        )
    else:
        reasons.append(LOSS_NOT_RUN)
    return list(dict.fromkeys(reason for reason in reasons if reason is not None))


class Scale(nn.Module):
    """Multiplies by one number: a model that cannot mix samples."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        return self.factor * x


def _reasons_by_kind(model: nn.Module, engine: str) -> Iterator[str]:
    """Yield the reasons that show without running the model."""
    yield from reasons_by_kind(model)
    if not issubclass(ENGINES[engine], HooksEngine):
        return  # an engine without layer rules
    for name, layer in model.named_modules():
        if any(p.requires_grad for p in layer.parameters()):
            try:
                rule_for(layer, name)
            except UnsupportedModuleError as error:
                yield str(error)


def _first_reason(
    model: nn.Module,
    args: tuple[Any, ...],
    loss: tuple[Any, LossFunction] | None = None,
    **options: Any,
) -> str | None:
    """Return why ``attach``, or the first pass without a loss, rejects a model."""
    if loss is not None:
        targets, loss_fn = loss
        options |= {"example_inputs": (args, targets), "loss_fn": loss_fn}
    trained = [p for p in model.parameters() if p.requires_grad]
    own = PrivacyEngine(model, **PLAN, **options)
    try:
        own.attach(torch.optim.SGD(trained or [torch.zeros(1)], lr=0.0))
        if loss is None:
            model(*args)
    except (UnsupportedModuleError, PrivacyError) as error:
        return str(error)
    except Exception:
        if loss is not None:
            raise
        return None  # of the model's own code, after the check
    finally:
        own.detach()
    return None


def _outputs(model: nn.Module, args: tuple[Any, ...]) -> Any:
    """Return the outputs; None if the model cannot be run on these inputs."""
    try:
        with torch.no_grad():
            return model(*args)
    except Exception:  # a reason above says so
        return None


@contextmanager
def _undisturbed(model: nn.Module) -> Iterator[None]:
    """Restore stored values, gradients and global random numbers at the end."""
    state = ModuleState(model)
    gradients = {p: p.grad for p in model.parameters()}
    devices = {p.device for p in gradients if p.is_cuda}
    before = random.getstate(), np.random.get_state()
    for parameter in gradients:
        parameter.grad = None
    try:
        with torch.random.fork_rng(devices):
            yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])
        state.restore()
        for parameter, gradient in gradients.items():
            parameter.grad = gradient


def _nobody(line: str) -> None:
    """Take a line that ``make_private_ready`` would print."""

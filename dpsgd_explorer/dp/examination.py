"""Lists the reasons why a model or its loss cannot be trained with the guarantee."""

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
from dpsgd_explorer.dp.attachments import is_attached
from dpsgd_explorer.dp.checks.passes import LossFunction
from dpsgd_explorer.dp.checks.repairs import make_private_ready
from dpsgd_explorer.dp.config import ENGINES, check_example, check_module
from dpsgd_explorer.dp.engine import PrivacyEngine
from dpsgd_explorer.dp.engines.hooks import HooksEngine
from dpsgd_explorer.dp.layers import rule_for
from dpsgd_explorer.dp.modules.rejected import reasons_by_kind
from dpsgd_explorer.dp.modules.state import restored
from dpsgd_explorer.errors import PrivacyError, UnsupportedModuleError
from dpsgd_explorer.validation import one_of

#: Arguments of a valid plan for the trial engine; the check does not depend on them.
TRIAL_PLAN: dict[str, Any] = {
    "sample_size": 1000,
    "batch_size": 1,
    "steps": 1,
    "noise_multiplier": 1.0,
}
# Messages on checks that could not run.
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
    if is_attached(model):
        return [ATTACHED]
    reasons = [*layer_reasons(model, engine)]
    trial = _repaired(model, engine) if reasons else model
    if trial is None:
        return [*reasons, NOT_RUN]
    options: dict[str, Any] = {"engine": engine, "loss_reduction": loss_reduction}
    with _undisturbed(model):
        reasons += _measured(trial, example_inputs, loss_fn, options)
        if trial is not model and any(p.grad is not None for p in model.parameters()):
            # The loss refers to the model, so the check of the copy did not run it.
            reasons.append(NOT_RUN)
    return reasons


def _repaired(model: nn.Module, engine: str) -> nn.Module | None:
    """Returns a repaired copy; None if the model cannot be copied or repaired."""
    try:
        trial = make_private_ready(deepcopy(model), tell=_ignore_line)
    except Exception:  # a lazy layer without a size, or an error of deepcopy
        return None
    return None if any(layer_reasons(trial, engine)) else trial


def _measured(
    model: nn.Module,
    example: tuple[Any, Any],
    loss_fn: LossFunction,
    options: dict[str, Any],
) -> list[str]:
    """Returns the reasons that the safety check of model and loss finds."""
    inputs, targets = example
    args = inputs if isinstance(inputs, tuple) else (inputs,)
    joint_reason = _first_reason(model, args, (targets, loss_fn), **options)
    if joint_reason is None:
        return []
    model_reason = _first_reason(model, args, **options)
    if model_reason is None:
        return [joint_reason]
    reasons: list[str | None] = [joint_reason, model_reason]
    outputs = _outputs(model, args)
    if isinstance(outputs, Tensor) and outputs.is_floating_point():
        loss = targets, loss_fn
        reasons.append(_first_reason(Scale(), (outputs,), loss, **options))
    else:
        reasons.append(LOSS_NOT_RUN)
    return list(dict.fromkeys(reason for reason in reasons if reason is not None))


class Scale(nn.Module):
    """A model that multiplies by a number, and so cannot mix samples."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        return self.factor * x


def layer_reasons(model: nn.Module, engine: str) -> Iterator[str]:
    """Yields the reasons that follow from types and settings of the modules."""
    yield from reasons_by_kind(model)
    if not issubclass(ENGINES[engine], HooksEngine):
        return  # the engine uses no layer rules
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
    """Returns why an engine rejects a model, or None.

    Args:
        model: The model.
        args: Arguments of the model.
        loss: (targets, loss_fn), which ``attach`` then checks.  If None, the first
            forward pass checks the model alone.
        options: Arguments of the engine.
    """
    if loss is not None:
        targets, loss_fn = loss
        options |= {"example_inputs": (args, targets), "loss_fn": loss_fn}
    trained = [p for p in model.parameters() if p.requires_grad]
    trial_engine = PrivacyEngine(model, **TRIAL_PLAN, **options)
    try:
        trial_engine.attach(torch.optim.SGD(trained or [torch.zeros(1)], lr=0.0))
        if loss is None:
            model(*args)
    except (UnsupportedModuleError, PrivacyError) as error:
        return str(error)
    except Exception:
        if loss is not None:
            raise
        return None  # an error of the model's code after the check has passed
    finally:
        trial_engine.detach()
    return None


def _outputs(model: nn.Module, args: tuple[Any, ...]) -> Any:
    """Returns the outputs; None if the model cannot be run on these inputs."""
    try:
        with torch.no_grad():
            return model(*args)
    except Exception:  # the reasons before contain this error
        return None


@contextmanager
def _undisturbed(model: nn.Module) -> Iterator[None]:
    """Restores stored values, gradients and global random generators at the end."""
    gradients = {p: p.grad for p in model.parameters()}
    python_state, numpy_state = random.getstate(), np.random.get_state()
    for parameter in gradients:
        parameter.grad = None
    try:
        with restored(model):
            yield
    finally:
        random.setstate(python_state)
        np.random.set_state(numpy_state)
        for parameter, gradient in gradients.items():
            parameter.grad = gradient


def _ignore_line(line: str) -> None:
    """Ignores a line that ``make_private_ready`` would print."""

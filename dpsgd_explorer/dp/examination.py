"""Lists everything that keeps a model and its loss from private training."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from dpsgd_explorer.dp import choices
from dpsgd_explorer.dp.argument_checks import (
    check_example,
    check_loss_fn,
    check_module,
)
from dpsgd_explorer.dp.engine import PrivacyEngine
from dpsgd_explorer.dp.layers import rule_for
from dpsgd_explorer.dp.modules.refused import reasons_by_kind
from dpsgd_explorer.dp.safety.passes import LossFunction
from dpsgd_explorer.dp.safety.repairs import make_private_ready
from dpsgd_explorer.errors import UnsupportedModuleError

#: Engines that give every layer a rule.
LAYERED = ("hooks", "extending")
#: Nothing of the plan matters to the check.
PLAN: dict[str, Any] = {
    "sample_size": 1000,
    "batch_size": 1,
    "steps": 1,
    "noise_multiplier": 1.0,
}
NOT_RUN = (
    "not checked: whether the model or the loss mixes samples. Mend the modules above, "
    "and call examine again."
)


def examine(
    model: nn.Module,
    example_inputs: tuple[Any, Any],
    loss_fn: LossFunction,
    *,
    engine: choices.Engine = "hooks",
    loss_reduction: choices.LossReduction = "mean",
) -> list[str]:
    """Return all reasons why the engine would reject a model or its loss.

    ``PrivacyEngine.attach`` raises the first of them.  The model is not changed: a copy
    of it is repaired by ``make_private_ready`` and then measured, as at ``attach``.

    Args:
        model: The model; parameters with ``requires_grad`` are trained.
        example_inputs: A batch ``(inputs, targets)`` of at least two samples, inputs of
            shape (B, ...).  Shapes and dtypes are used, not values.
        loss_fn: ``loss_fn(outputs, targets)``, the loss of the training.
        engine: How per-sample gradients are computed; see ``PrivacyEngine``.
        loss_reduction: "mean" or "sum": how the loss joins the samples.

    Returns:
        A message per reason, with its remedy; an empty list if nothing is wrong.

    Raises:
        ConfigError: naming the argument at fault.

    Example:
        >>> from torch import nn, randn
        >>> model = nn.Sequential(
        ...     nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)
        ... )
        >>> reasons = examine(model, (randn(8, 3), randn(8, 1)), nn.MSELoss())
        >>> [reason.split(" normalizes")[0] for reason in reasons]
        ['1 (BatchNorm1d)']
    """
    check_module(model)
    check_loss_fn(loss_fn)
    check_example(example_inputs, loss_fn)
    reasons = [*_reasons_by_kind(model, engine)]
    try:
        trial = make_private_ready(deepcopy(model), tell=_nobody)
    except UnsupportedModuleError:  # a layer without sizes, which is among the reasons
        return [*reasons, NOT_RUN]
    if any(_reasons_by_kind(trial, engine)):
        return [*reasons, NOT_RUN]
    inputs, targets = example_inputs
    args = inputs if isinstance(inputs, tuple) else (inputs,)
    options: dict[str, Any] = {"engine": engine, "loss_reduction": loss_reduction}
    of_both = _first_reason(trial, args, (targets, loss_fn), **options)
    if of_both is None:
        return reasons
    of_the_model = _first_reason(trial, args, **options)
    if of_the_model is None:
        return [*reasons, of_both]
    reasons.append(of_the_model)
    with torch.no_grad():
        outputs = _call(trial, args)
    if isinstance(outputs, Tensor):
        of_the_loss = _first_reason(Scale(), (outputs,), (targets, loss_fn), **options)
        reasons += [] if of_the_loss is None else [of_the_loss]
    return reasons


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
    if engine not in LAYERED:
        return
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
            _call(model, args)
    except UnsupportedModuleError as error:
        return str(error)
    finally:
        own.detach()
    return None


def _call(model: nn.Module, args: tuple[Any, ...]) -> Any:
    """Return the outputs; random numbers of the caller stay as they were."""
    devices = {p.device for p in model.parameters() if p.is_cuda}
    with torch.random.fork_rng(devices):
        return model(*args)


def _nobody(line: str) -> None:
    """Take a line that ``make_private_ready`` would print."""

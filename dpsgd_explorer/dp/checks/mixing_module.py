"""Finds which module mixes the samples of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from dpsgd_explorer.dp.checks.controlled_draws import ControlledDraws
from dpsgd_explorer.dp.checks.draw_patterns import Pattern
from dpsgd_explorer.dp.engines.base import batch_size_of
from dpsgd_explorer.dp.modules.input_rows import call_module

#: (name, inputs, outputs) of each module; a module follows the modules inside it.
Trace = list[tuple[str, list[Tensor], list[Tensor]]]


def describe_mixing(
    module: nn.Module,
    call: Any,
    changes: Mapping[int, Any],
    draws: ControlledDraws,
    pattern: Pattern | None = None,
) -> str:
    """Returns a message that names the innermost module that mixes rows.

    Args:
        module: The model.
        call: (args, kwargs) of the module.
        changes: {i: call with every sample but i replaced}.
        draws: Sets the random draws of each call, so that random masks agree.
        pattern: Pattern of the draws; None for draws that are not at an end.
    """
    before = _trace(module, call, draws)
    kinds = {
        name: type(submodule).__name__ for name, submodule in module.named_modules()
    }
    when, remedy = _causes(pattern)
    traces: dict[int, Trace] = {}  # one changed call may serve several rows
    for i, changed in changes.items():
        if id(changed) not in traces:
            traces[id(changed)] = _trace(module, changed, draws)
        name = _first_to_move(before, traces[id(changed)], i)
        if name is not None:
            return (
                f"{name or 'the module'} ({kinds[name]}) mixes the samples of a "
                f"batch{when}: its output for one sample changes when the other "
                "samples change, so clipping cannot bound the influence of one sample. "
                f"{remedy}"
            )
    return (
        f"the loss mixes the samples of a batch{when}: the gradient of one sample "
        "changes when the other samples change, although the module's outputs do not. "
        "Use a loss that is a mean or sum of one term per sample, such as "
        "dpsgd_explorer.dp.per_sample_mean(losses, mask)."
    )


def _causes(pattern: Pattern | None) -> tuple[str, str]:
    """Returns the condition under which the module mixes samples, and the remedy."""
    if pattern is None:
        return "", (
            "Replace it by a layer that works within one sample, such as GroupNorm or "
            "LayerNorm for BatchNorm."
        )
    return (
        f" when random numbers {pattern}",
        "Remove the branch that they select (mixup, CutMix). A branch that changes "
        "each sample separately, such as dropout, may stay.",
    )


def _first_to_move(before: Trace, after: Trace, i: int) -> str | None:
    """Returns the name of the first module that changes row i; None if none does.

    Its input rows i are equal in both traces, and its output rows i differ.
    """
    for (name, inputs, outputs), (_, new_inputs, new_outputs) in zip(
        before, after, strict=False
    ):
        if _same(inputs, new_inputs, i) and not _same(outputs, new_outputs, i):
            return name
    return None


def _trace(module: nn.Module, call: Any, draws: ControlledDraws) -> Trace:
    """Returns the inputs and outputs of all modules in one call."""
    trace: Trace = []
    names = {submodule: name for name, submodule in module.named_modules()}

    def record(submodule: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        trace.append((names[submodule], _tensors((args, kwargs)), _tensors(output)))

    handles = [
        submodule.register_forward_hook(record, with_kwargs=True)
        for submodule in module.modules()
    ]
    try:
        with torch.no_grad(), draws.of_pass(batch_size_of(*call)):
            call_module(module, call)
    finally:
        for handle in handles:
            handle.remove()
    return trace


def _tensors(tree: Any) -> list[Tensor]:
    """Returns copies of the tensors, which a later module may change in place."""
    return [leaf.clone() for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


def _same(first: list[Tensor], second: list[Tensor], i: int) -> bool:
    """Returns True if all rows i are equal.

    Tensors without a row i must be equal as a whole.
    """
    if len(first) != len(second):
        return False
    return all(_same_row(a, b, i) for a, b in zip(first, second, strict=True))


def _same_row(a: Tensor, b: Tensor, i: int) -> bool:
    if _has_row(a, i) and _has_row(b, i):
        a, b = a[i], b[i]
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return torch.allclose(a, b, rtol=1e-4, atol=1e-6, equal_nan=True)


def _has_row(tensor: Tensor, i: int) -> bool:
    return tensor.dim() > 0 and len(tensor) > i

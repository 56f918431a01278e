"""Finds which module mixes the samples of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from dpsgd_explorer.dp.modules.input_rows import called
from dpsgd_explorer.dp.modules.seeding import seed_draws

Trace = list[tuple[str, list[Tensor], list[Tensor]]]


def describe_mixing(
    module: nn.Module, call: Any, changes: Mapping[int, Any], seed: int
) -> str:
    """Return a message that names the innermost module that mixes rows.

    Args:
        module: The model.
        call: (args, kwargs) of one call.
        changes: {i: the same call with every sample but i replaced}.
        seed: Set before each call, so that random masks agree.
    """
    before = _trace(module, call, seed)
    kinds = {
        name: type(submodule).__name__ for name, submodule in module.named_modules()
    }
    for i, changed in changes.items():
        name = _first_to_move(before, _trace(module, changed, seed), i)
        if name is not None:
            return (
                f"{name or 'the module'} ({kinds[name]}) mixes the samples of a batch: "
                "its output for one sample moves when the others change, so clipping "
                "cannot bound what one sample does. Use something that works within "
                "one sample instead, such as GroupNorm or LayerNorm for BatchNorm."
            )
    return (
        "the loss mixes the samples of a batch: the gradient of one sample moves when "
        "the others change, though the module's outputs do not. Use a loss that is a "
        "mean or sum of a term for each sample, such as "
        "dpsgd_explorer.dp.losses.per_sample_mean(losses, mask)."
    )


def _first_to_move(before: Trace, after: Trace, i: int) -> str | None:
    """Return the first module with the same input row i and another output row i."""
    for (name, inputs, outputs), (_, new_inputs, new_outputs) in zip(
        before, after, strict=False
    ):
        if _same(inputs, new_inputs, i) and not _same(outputs, new_outputs, i):
            return name
    return None


def _trace(module: nn.Module, call: Any, seed: int) -> Trace:
    """Return (name, inputs, outputs) of all modules in the order they finish."""
    trace: Trace = []
    names = {submodule: name for name, submodule in module.named_modules()}

    def record(submodule: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        trace.append((names[submodule], _tensors((args, kwargs)), _tensors(output)))

    handles = [
        submodule.register_forward_hook(record, with_kwargs=True)
        for submodule in module.modules()
    ]
    try:
        seed_draws(seed)
        with torch.no_grad():
            called(module, call)
    finally:
        for handle in handles:
            handle.remove()
    return trace


def _tensors(tree: Any) -> list[Tensor]:
    """Return copies of the tensors: a later module may change them in place."""
    return [leaf.clone() for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


def _same(first: list[Tensor], second: list[Tensor], i: int) -> bool:
    """Whether row i is equal; a tensor without such a row must be equal as a whole."""
    for a, b in zip(first, second, strict=True):
        rows = (a[i], b[i]) if a.dim() > 0 and len(a) > i else (a, b)
        if not torch.allclose(*rows, rtol=1e-4, atol=1e-6, equal_nan=True):
            return False
    return True

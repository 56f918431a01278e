"""Finds the labels among the inputs of a module that returns its own loss."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import Node
from torch.utils._pytree import tree_flatten, tree_unflatten

from dpsgd_explorer.dp.modules.input_rows import called
from dpsgd_explorer.dp.modules.probe_inputs import SAMPLES, has_rows, smallest_table
from dpsgd_explorer.dp.modules.pytree import tensors_of

#: Most operations searched from a scalar output.
FARTHEST = 50

Found = list[tuple[int, Tensor]]


def labels_of(module: nn.Module, call: Any, size: int) -> dict[int, int]:
    """Return {leaf of the call: number of classes} of the labels in it.

    The module runs on inputs of ones, then with zeros in one input after the other: a
    label is an input that changes the targets of a likelihood.  A one is valid as id,
    as class and as length.

    Args:
        module: The model, without an engine's hooks.
        call: (args, kwargs); shapes and dtypes are used.
        size: Its number of samples.
    """
    leaves, spec = tree_flatten(call)
    ones = [_ones(leaf, size, module) for leaf in leaves]
    places = [i for i, leaf in enumerate(ones) if _may_be_labels(leaf)]
    rows = [leaf for leaf in ones if has_rows(leaf, SAMPLES)]
    if not places or len(rows) < 2:
        return {}
    before = _targets(module, tree_unflatten(ones, spec))
    labels: dict[int, int] = {}
    for place in places if before else []:
        changed = list(ones)
        changed[place] = torch.zeros_like(ones[place])
        for (classes, old), (_, new) in zip(
            before, _targets(module, tree_unflatten(changed, spec)), strict=False
        ):
            if not torch.equal(old, new):
                labels[place] = min(classes, labels.get(place, classes))
    return labels


def _ones(leaf: Any, size: int, module: nn.Module) -> Any:
    if not has_rows(leaf, size):
        return leaf
    ones = leaf.new_ones((SAMPLES, *leaf.shape[1:]))
    return ones * min(1, smallest_table(module) - 1) if _may_be_labels(ones) else ones


def _may_be_labels(leaf: Any) -> bool:
    return has_rows(leaf, SAMPLES) and leaf.dtype == torch.int64


def _targets(module: nn.Module, call: Any) -> Found:
    """Return (classes, targets) of each likelihood near a scalar output."""
    try:
        outputs = called(module, call)
    except (RuntimeError, LookupError, ValueError, TypeError, AssertionError):
        return []  # lengths of 0, for one; the check reports the error itself
    likelihoods: Found = []
    for leaf in tensors_of(outputs):
        if leaf.dim() == 0 and leaf.grad_fn is not None:
            likelihoods += _likelihoods(leaf.grad_fn)
    return likelihoods


def _likelihoods(root: Node) -> Found:
    likelihoods: Found = []
    waiting, seen = [root], {root}
    for node in waiting:
        if node.name().startswith("NllLoss"):
            classes = node._saved_self.shape[1]  # type: ignore[attr-defined]
            likelihoods.append((classes, node._saved_target.clone()))  # type: ignore[attr-defined]
            continue
        sources = {n for n, _ in node.next_functions if n is not None} - seen
        if len(seen) < FARTHEST:
            seen |= sources
            waiting += sources
    return likelihoods

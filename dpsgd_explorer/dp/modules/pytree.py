"""Tensors of a tree; one tensor alone, the usual case, is not flattened."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map


def map_tensors(change: Callable[[Any], Any], tree: Any) -> Any:
    """Return the tree with every leaf changed."""
    return change(tree) if isinstance(tree, Tensor) else tree_map(change, tree)


def tensors_of(tree: Any) -> list[Tensor]:
    """Return the tensors among the leaves of a tree."""
    if isinstance(tree, Tensor):
        return [tree]
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]

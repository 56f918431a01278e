"""Tensors of a tree, with a fast path for the usual tree of a single tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map


def map_tensors(change: Callable[[Any], Any], tree: Any) -> Any:
    """Returns the tree with every leaf changed."""
    return change(tree) if isinstance(tree, Tensor) else tree_map(change, tree)


def tensors_of(tree: Any) -> list[Tensor]:
    """Returns the tensors among the leaves of a tree."""
    if isinstance(tree, Tensor):
        return [tree]
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]

"""Going through a rule's record, which mostly is one tensor and then costs nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map


def map_tensors(change: Callable[[Any], Any], record: Any) -> Any:
    """Return the record with every leaf changed."""
    return change(record) if isinstance(record, Tensor) else tree_map(change, record)


def tensors_of(record: Any) -> list[Tensor]:
    """Return the tensors of a record, or of any tree."""
    if isinstance(record, Tensor):
        return [record]
    return [leaf for leaf in tree_leaves(record) if isinstance(leaf, Tensor)]

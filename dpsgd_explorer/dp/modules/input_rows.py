"""Finds the inputs of a module that have one row per sample.

The length of the first tensor is the number of samples B.  Another tensor of length B
may have one row per sample, or all samples may share it, such as a mask [T, T] or
positions [T] with T = B by chance.  Its shape does not show which, but a run with
another number of samples does.  The module therefore runs on a number of random rows
that no dimension of its inputs has.  If it runs with all tensors of length B at that
length, all of them have rows.  Otherwise the smallest set of tensors that must keep
their length is shared.

Worked example: ids [4, 4] and a mask [4, 4].  If both have 3 rows, the mask does not
fit 4 positions, and the module raises an error.  With 3 rows of ids and the whole mask
it runs, so the mask is shared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import (
    keystr,
    tree_flatten_with_path,
    tree_leaves,
    tree_map,
)

from dpsgd_explorer.dp.modules import probe_inputs
from dpsgd_explorer.dp.modules.state import restored

#: Minimum number of rows of such a run.  With 1 or 2 rows, broadcasting could hide a
#: mismatch.
MIN_ROWS = 3


@dataclass(frozen=True, eq=False)
class SharedInput:
    """A wrapper of an input that all samples share, so that it keeps its length."""

    value: Tensor


class InputRows:
    """Decides which inputs of a module have one row per sample."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._has_rows: dict[str, bool] = {}

    def forget(self) -> None:
        """Removes all results, so that the next call decides again."""
        self._has_rows = {}

    def of(self, call: Any, size: int) -> list[bool]:
        """Returns for each leaf of a call, in the tree's order, True if it has rows.

        Args:
            call: (args, kwargs) of the module.
            size: Number of samples, B: the length of the first tensor.
        """
        entries, _ = tree_flatten_with_path(call)
        leaves = [leaf for _, leaf in entries]
        paths = [keystr(path) for path, _ in entries]
        may_have_rows = [probe_inputs.has_rows(leaf, size) for leaf in leaves]
        unknown = [
            i
            for i, (path, leaf) in enumerate(zip(paths, leaves, strict=True))
            if isinstance(leaf, Tensor) and path not in self._has_rows
        ]
        if unknown:
            first = next((i for i, may in enumerate(may_have_rows) if may), None)
            new = [i for i in unknown if i != first]
            self._learn(call, paths, may_have_rows, new)
            if first is not None:
                self._has_rows[paths[first]] = True
        return [
            may and self._has_rows[path]
            for path, may in zip(paths, may_have_rows, strict=True)
        ]

    def wrap_shared(self, call: Any, size: int) -> Any:
        """Returns the call with all tensors without rows wrapped as ``SharedInput``."""
        return _wrapped(call, self.of(call, size))

    def _learn(
        self,
        call: Any,
        paths: list[str],
        may_have_rows: list[bool],
        unknown: list[int],
    ) -> None:
        """Decides which leaves with the indices ``unknown`` have rows."""
        candidates = [i for i in unknown if may_have_rows[i]]
        has_rows = [
            may and self._has_rows.get(path, True)
            for path, may in zip(paths, may_have_rows, strict=True)
        ]
        shared = self._shared(call, has_rows, candidates) if candidates else ()
        for i in unknown:
            self._has_rows[paths[i]] = may_have_rows[i] and i not in shared

    def _shared(
        self, call: Any, has_rows: list[bool], candidates: list[int]
    ) -> Sequence[int]:
        """Returns the smallest set of candidates with which the module runs as shared.

        If the module never runs, the set is empty, and the safety check reports the
        module's error.
        """
        with restored(self._module), torch.no_grad():
            self._module.eval()
            for count in range(len(candidates) + 1):
                for shared in combinations(candidates, count):
                    rows = [has and i not in shared for i, has in enumerate(has_rows)]
                    if self._runs(call, rows):
                        return shared
        return ()

    def _runs(self, call: Any, rows: list[bool]) -> bool:
        """Returns True if the module runs with another number of rows.

        Args:
            call: (args, kwargs) of the module.
            rows: For each leaf of the call, True if its length changes.
        """
        leaves = tree_leaves(call)
        count = _unused_length(leaves)
        tree = _wrapped(call, rows)
        size = next(len(x) for x, has_row in zip(leaves, rows, strict=True) if has_row)
        drawn = probe_inputs.random_call(self._module, tree, size, probe_inputs.SEED)
        indices = torch.arange(count) % probe_inputs.SAMPLES
        drawn = tree_map(
            lambda x: x[indices.to(x.device)] if isinstance(x, Tensor) else x, drawn
        )
        try:
            outputs = call_module(self._module, drawn)
        except (ArithmeticError, AttributeError, AssertionError, LookupError,
                RuntimeError, TypeError, ValueError):  # fmt: skip
            return False
        tensors = [x for x in tree_leaves(outputs) if isinstance(x, Tensor)]
        return all(len(x) == count for x in tensors if x.dim())


def call_module(module: Callable[..., Any], call: Any) -> Any:
    """Returns the outputs of a call, whose shared inputs may be wrapped."""
    args, kwargs = tree_map(
        lambda x: x.value if isinstance(x, SharedInput) else x, call
    )
    return module(*args, **kwargs)


def _wrapped(call: Any, rows: Iterable[bool]) -> Any:
    next_rows = iter(rows)

    def wrap(leaf: Any) -> Any:
        has_rows = next(next_rows)
        return SharedInput(leaf) if isinstance(leaf, Tensor) and not has_rows else leaf

    return tree_map(wrap, call)


def _unused_length(leaves: Iterable[Any]) -> int:
    """Returns a number that is the length of no dimension of the tensors."""
    lengths = {n for leaf in leaves if isinstance(leaf, Tensor) for n in leaf.shape}
    return next(n for n in range(MIN_ROWS, MIN_ROWS + len(lengths) + 1)
                if n not in lengths)  # fmt: skip

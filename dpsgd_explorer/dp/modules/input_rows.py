"""Finds the inputs of a module that have one row per sample.

The first tensor counts the samples.  Another tensor of equal length may have one row
per sample, or be shared by all (a mask [T, T], positions [T]) with T = B by chance.
Its shape does not show which; a run with another number of samples does.  So the module
runs on random rows, of a number that no dimension of its inputs has: if it runs with
all doubtful inputs cut to that number, they have rows; else the fewest that must stay
uncut are shared.

Worked: ids [4, 4] and a mask [4, 4].  Cut to 3 rows both, the mask does not fit 4
positions and the module raises; with the mask uncut it runs: the mask is shared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
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
from dpsgd_explorer.dp.modules.state import ModuleState

#: Fewest rows of such a run: with 1 or 2, broadcasting could hide a mismatch.
LEAST_ROWS = 3


@dataclass(frozen=True, eq=False)
class SharedInput:
    """An input that all samples share, wrapped so that its rows are not cut."""

    value: Tensor


class InputRows:
    """Whether each input of a module has rows, by its place in the call."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._has_rows: dict[str, bool] = {}

    def forget(self) -> None:
        """Forget all inputs."""
        self._has_rows = {}

    def of(self, call: Any, size: int) -> list[bool]:
        """Return whether each leaf of a call, in the tree's order, has rows.

        Args:
            call: (args, kwargs) of the module.
            size: B, the length of the first tensor.
        """
        paths, _ = tree_flatten_with_path(call)
        leaves = [leaf for _, leaf in paths]
        places = [keystr(path) for path, _ in paths]
        long = [probe_inputs.has_rows(leaf, size) for leaf in leaves]
        unknown = [
            i
            for i, (place, leaf) in enumerate(zip(places, leaves, strict=True))
            if isinstance(leaf, Tensor) and place not in self._has_rows
        ]
        if unknown:
            first = next((i for i, is_long in enumerate(long) if is_long), None)
            self._learn(call, places, long, [i for i in unknown if i != first])
            if first is not None:
                self._has_rows[places[first]] = True
        return [
            is_long and self._has_rows[place]
            for place, is_long in zip(places, long, strict=True)
        ]

    def marked(self, call: Any, size: int) -> Any:
        """Return the call with every tensor that has no rows as ``SharedInput``."""
        return _wrapped(call, self.of(call, size))

    def _learn(
        self, call: Any, places: list[str], long: list[bool], unknown: list[int]
    ) -> None:
        """Decide on the leaves at these indices; those of other lengths are shared."""
        doubtful = [i for i in unknown if long[i]]
        known = [
            is_long and self._has_rows.get(place, True)
            for place, is_long in zip(places, long, strict=True)
        ]
        shared = self._shared(call, known, doubtful) if doubtful else ()
        for i in unknown:
            self._has_rows[places[i]] = long[i] and i not in shared

    def _shared(
        self, call: Any, known: list[bool], doubtful: list[int]
    ) -> Sequence[int]:
        """Return the fewest of these leaves that must stay uncut.

        An empty sequence if the module runs in no way; the safety check then reports
        its error.
        """
        with _undisturbed(self._module):
            for count in range(len(doubtful) + 1):
                for shared in combinations(doubtful, count):
                    rows = [
                        has_row and i not in shared for i, has_row in enumerate(known)
                    ]
                    if self._runs(call, rows):
                        return shared
        return ()

    def _runs(self, call: Any, rows: list[bool]) -> bool:
        """Whether the module runs with another number of these rows."""
        leaves = tree_leaves(call)
        count = _unlike(leaves)
        tree = _wrapped(call, rows)
        size = next(len(x) for x, has_row in zip(leaves, rows, strict=True) if has_row)
        drawn = probe_inputs.random_call(self._module, tree, size, probe_inputs.SEED)
        more = torch.arange(count) % probe_inputs.SAMPLES
        drawn = tree_map(
            lambda x: x[more.to(x.device)] if isinstance(x, Tensor) else x, drawn
        )
        try:
            outputs = called(self._module, drawn)
        except (ArithmeticError, AttributeError, AssertionError, LookupError,
                RuntimeError, TypeError, ValueError):  # fmt: skip
            return False
        tensors = [x for x in tree_leaves(outputs) if isinstance(x, Tensor)]
        return all(len(x) == count for x in tensors if x.dim())


def called(module: Callable[..., Any], call: Any) -> Any:
    """Return the outputs of a call in which shared inputs may be wrapped."""
    args, kwargs = tree_map(
        lambda x: x.value if isinstance(x, SharedInput) else x, call
    )
    return module(*args, **kwargs)


def _wrapped(call: Any, rows: Iterable[bool]) -> Any:
    rest = iter(rows)

    def wrap(leaf: Any) -> Any:
        has_rows = next(rest)
        return SharedInput(leaf) if isinstance(leaf, Tensor) and not has_rows else leaf

    return tree_map(wrap, call)


def _unlike(leaves: Iterable[Any]) -> int:
    """Return a number that is the length of no dimension of the tensors."""
    taken = {n for leaf in leaves if isinstance(leaf, Tensor) for n in leaf.shape}
    return next(n for n in range(LEAST_ROWS, LEAST_ROWS + len(taken) + 1)
                if n not in taken)  # fmt: skip


@contextmanager
def _undisturbed(module: nn.Module) -> Iterator[None]:
    """Run in evaluation mode without gradients; restore the module's state after."""
    modes = {submodule: submodule.training for submodule in module.modules()}
    state = ModuleState(module)
    devices = sorted({p.device.index for p in module.parameters() if p.is_cuda})
    try:
        module.eval()
        with torch.random.fork_rng(devices=devices), torch.no_grad():
            yield
    finally:
        for submodule, mode in modes.items():
            submodule.training = mode
        state.restore()

"""Which inputs of a module have one row for each sample.

The first tensor counts the samples.  Another one of as many rows may have one for each
of them, or be the same for all (a mask [T, T], positions [T]) and by chance as long as
the batch.  Its shape does not tell; whether the module takes it for another number of
samples does.  So the module is tried on random rows, more or fewer than any dimension
of its inputs has: where it runs with all such inputs cut to the new number, they have
rows; else as many as it needs are left as they are, and shared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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

from dpsgd_explorer.dp.modules import probe_inputs as random_batch
from dpsgd_explorer.dp.modules.state import ModuleState

LEAST_ROWS = 3


@dataclass(frozen=True, eq=False)
class SharedInput:
    """An input that all samples share, kept out of the way of what cuts rows."""

    value: Tensor


class InputRows:
    """Learns of each input of a module, by its place in the call, if it has rows."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._has_rows: dict[str, bool] = {}

    def forget(self) -> None:
        """Start anew."""
        self._has_rows = {}

    def of(self, call: Any, size: int) -> list[bool]:
        """Return whether each leaf of a call, in the tree's order, has rows.

        Args:
            call: (args, kwargs) of the module.
            size: B, the length of the first tensor.
        """
        found, _ = tree_flatten_with_path(call)
        leaves = [leaf for _, leaf in found]
        places = [keystr(path) for path, _ in found]
        long = [_is_long(leaf, size) for leaf in leaves]
        unknown = [
            i
            for i, (place, leaf) in enumerate(zip(places, leaves, strict=True))
            if isinstance(leaf, Tensor) and place not in self._has_rows
        ]
        if unknown:
            first = next((i for i, each in enumerate(long) if each), None)
            self._learn(call, places, long, [i for i in unknown if i != first])
            if first is not None:
                self._has_rows[places[first]] = True
        return [
            each and self._has_rows[place]
            for place, each in zip(places, long, strict=True)
        ]

    def marked(self, call: Any, size: int) -> Any:
        """Return the call with every tensor that has no rows wrapped as ``Shared``."""
        return _wrapped(call, self.of(call, size))

    def _learn(
        self, call: Any, places: list[str], long: list[bool], unknown: list[int]
    ) -> None:
        """Decide of the leaves at these indices; those of other lengths are shared."""
        doubtful = [i for i in unknown if long[i]]
        known = [
            each and self._has_rows.get(place, True)
            for place, each in zip(places, long, strict=True)
        ]
        shared = self._shared(call, known, doubtful) if doubtful else ()
        for i in unknown:
            self._has_rows[places[i]] = long[i] and i not in shared

    def _shared(
        self, call: Any, known: list[bool], doubtful: list[int]
    ) -> Sequence[int]:
        """Return the fewest of these leaves without which the rest can be cut.

        None if the module runs in no way; the safety check will say why.
        """
        with _undisturbed(self._module):
            for count in range(len(doubtful) + 1):
                for kept in combinations(doubtful, count):
                    rows = [each and i not in kept for i, each in enumerate(known)]
                    if self._runs(call, rows):
                        return kept
        return ()

    def _runs(self, call: Any, rows: list[bool]) -> bool:
        """Whether the module takes another number of these rows."""
        leaves = tree_leaves(call)
        count = _unlike(leaves)
        tree = _wrapped(call, rows)
        size = next(len(x) for x, own in zip(leaves, rows, strict=True) if own)
        drawn = random_batch.random_call(self._module, tree, size, random_batch.SEED)
        more = torch.arange(count) % random_batch.SAMPLES
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


def called(module: nn.Module, call: Any) -> Any:
    """Return what the module gives for a call in which shared inputs may be marked."""
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


def _is_long(leaf: Any, size: int) -> bool:
    return isinstance(leaf, Tensor) and leaf.dim() > 0 and len(leaf) == size


def _unlike(leaves: Iterable[Any]) -> int:
    """Return a number that no dimension of the tensors has."""
    taken = {n for leaf in leaves if isinstance(leaf, Tensor) for n in leaf.shape}
    return next(n for n in range(LEAST_ROWS, LEAST_ROWS + len(taken) + 1)
                if n not in taken)  # fmt: skip


@contextmanager
def _undisturbed(module: nn.Module) -> Iterator[None]:
    """Run in evaluation mode without gradients, and put back what that changes."""
    modes = {each: each.training for each in module.modules()}
    state = ModuleState(module)
    devices = sorted({p.device.index for p in module.parameters() if p.is_cuda})
    try:
        module.eval()
        with torch.random.fork_rng(devices=devices), torch.no_grad():
            yield
    finally:
        for each, mode in modes.items():
            each.training = mode
        state.restore()

"""The safety check's comparisons at the size of a real batch.

Three rows show nearly all mixing, but not one that begins with more rows.  Here whole
batches of random rows are compared by the norms of their gradients, at the cost of
about three steps and the memory of one.
"""

from __future__ import annotations

from itertools import cycle
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from dpsgd_explorer.dp.engines.base import PerSampleGradients
from dpsgd_explorer.dp.modules import probe_inputs
from dpsgd_explorer.dp.modules.probe_inputs import SAMPLES, SEED, has_rows
from dpsgd_explorer.dp.modules.state import Changes, refuse_different
from dpsgd_explorer.dp.safety.draw_patterns import FEW_PATTERNS, Pattern, patterns
from dpsgd_explorer.dp.safety.gradient_parts import (
    Rows,
    joined,
    largest_entry,
    squared_norms_of,
)
from dpsgd_explorer.dp.safety.mixing_module import describe_mixing
from dpsgd_explorer.dp.safety.passes import CheckPasses
from dpsgd_explorer.errors import UnsupportedModuleError

#: Standard deviation of the rows that change: a module may mix large values only.
LARGE_SCALE = 100.0


class RealSizeCheck(CheckPasses):
    """Compares batches of the size of a real one; see SafetyCheck.

    Args:
        size: Number of samples of each.
        arguments, options: Those of SafetyCheck.
    """

    def __init__(self, *arguments: Any, size: int, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._rows_compared = size

    def run(self) -> None:
        """Raise UnsupportedModuleError if half of a batch changes the other half.

        Also if stored values depend on the samples or their number, or if most
        gradients depend on that number.
        """
        try:
            with self._session():
                self._compare()
        except torch.OutOfMemoryError as error:
            raise UnsupportedModuleError(
                f"the safety check must run {self._rows_compared} samples, as many as "
                f"a batch may have, got {type(error).__name__}. Split batches by "
                "physical_batch_size, which bounds what is run at once."
            ) from error

    def _compare(self) -> None:
        self._module.eval()
        call = self._random_call(SEED)
        other = self._random_call(SEED + 1, scale=LARGE_SCALE)
        targets = self._random_targets(call)
        few = call, targets
        self._few = few, (other, probe_inputs.rotated(targets))
        self._module.train()
        norms, changes = self._norms_and_changes(self._batch(None))
        for half in self._halves:
            self._compare_half(half, norms, changes)
        self._check_shared_draws()
        with self._draws.at(None):
            if self._draws.drew:
                norms, changes = self._norms_and_changes(self._batch(None))
            self._compare_with_few(few, norms, changes)

    def _batch(self, unchanged: Tensor | None) -> Any:
        """Return a batch of the size; rows that are not unchanged are other ones."""
        rows = torch.arange(self._rows_compared) % SAMPLES
        if unchanged is not None:
            rows += SAMPLES * ~unchanged
        return tree_map(lambda a, b: _chosen(a, b, rows), *self._few)

    def _check_shared_draws(self) -> None:
        """Compare where numbers drawn for a whole batch are extreme."""
        found = patterns(self._draws.numbers, FEW_PATTERNS)
        for pattern, half in zip(found, cycle(self._halves)):
            with self._draws.at(pattern):
                norms, changes = self._norms_and_changes(self._batch(None))
                self._compare_half(half, norms, changes, pattern)

    @property
    def _halves(self) -> tuple[Tensor, Tensor]:
        """Two halves of a batch, as masks; neither is empty."""
        generator = torch.Generator().manual_seed(SEED)
        half = torch.rand(self._rows_compared, generator=generator) < 0.5
        half[0], half[1] = True, False
        return half, ~half

    def _compare_half(
        self,
        half: Tensor,
        norms: Rows,
        changes: Changes,
        pattern: Pattern | None = None,
    ) -> None:
        """Compare the norms of half of a batch with those where the rest is another."""
        others, new = self._norms_and_changes(self._batch(half))
        refuse_different(self._module, changes, new)
        if not self._equal(_where(norms, half), _where(others, half)):
            (mixed, _), (first, _) = self._batch(half), self._batch(None)
            calls = dict.fromkeys(half.nonzero().flatten().tolist(), mixed)
            raise UnsupportedModuleError(
                describe_mixing(self._module, first, calls, self._draws, pattern)
            )

    def _compare_with_few(self, few: Any, norms: Rows, changes: Changes) -> None:
        """Compare a batch's norms with those of the SAMPLES rows that it repeats."""
        of_few, new = self._norms_and_changes(few)
        refuse_different(self._module, changes, new, sizes=True)
        rows = torch.arange(self._rows_compared) % SAMPLES
        repeated = {
            name: values[rows.to(values.device)] for name, values in of_few.items()
        }
        if not self._mostly_equal(norms, repeated):
            raise UnsupportedModuleError(self._size_refusal())

    def _equal(self, first: Rows, second: Rows) -> bool:
        """Whether the norms of two passes are equal, but for rounding."""
        limit = self._tolerance * max(map(largest_entry, first.values()), default=0.0)
        return all(
            largest_entry(values - second[unit]) <= limit
            for unit, values in first.items()
        )

    def _mostly_equal(self, first: Rows, second: Rows) -> bool:
        """Whether most norms agree; rounding may move a few rows across a ReLU's 0."""
        largest = max(float(values.max()) for values in first.values())
        close = [
            (values - second[name]).abs() <= self._tolerance * largest
            for name, values in first.items()
        ]
        return float(torch.stack(close).all(0).float().mean()) > 0.5

    def _norms_and_changes(self, batch: Any) -> tuple[Rows, Changes]:
        """Return {unit: gradient norms [B]}, and the changes of the module's state."""
        squared: list[Rows] = []
        sizes: list[int] = []

        def measure(samples: PerSampleGradients) -> None:
            # At once: the gradients of a large batch are not stored.
            squared.append(squared_norms_of(samples))
            sizes.append(len(samples))

        call, targets = batch
        self._run(call, targets, measure)
        norms = {unit: values.sqrt() for unit, values in joined(squared).items()}
        some = next(iter(norms.values()), torch.zeros(sum(sizes)))
        return {
            unit: norms.get(unit, torch.zeros_like(some))  # it may not have run
            for unit in self._gradient_engine.parameters()
        }, self._state.changes()


def _chosen(first: Any, second: Any, rows: Tensor) -> Any:
    """Return rows of SAMPLES rows followed by SAMPLES others; what has none stays."""
    if not has_rows(first, SAMPLES):
        return first
    return torch.cat([first, second])[rows.to(first.device)]


def _where(norms: Rows, mask: Tensor) -> Rows:
    return {name: values[mask.to(values.device)] for name, values in norms.items()}

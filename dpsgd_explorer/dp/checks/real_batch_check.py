"""The safety check's comparisons at the size of a real batch.

Three rows show nearly all mixing, but not one that begins with more rows.  Here whole
batches of random rows are compared by the norms of their gradients, at the cost of
about three steps and the memory of one.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import cycle
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from dpsgd_explorer.dp.checks.draw_patterns import (
    FEW_PATTERNS,
    OWN_PATTERN,
    Pattern,
    are_coins,
    patterns,
)
from dpsgd_explorer.dp.checks.gradient_parts import (
    Rows,
    joined,
    largest_entry,
    squared_norms_of,
)
from dpsgd_explorer.dp.checks.mixing_module import describe_mixing
from dpsgd_explorer.dp.checks.passes import CheckPasses
from dpsgd_explorer.dp.engines.base import PerSampleGradients
from dpsgd_explorer.dp.modules import probe_inputs
from dpsgd_explorer.dp.modules.probe_inputs import SAMPLES, SEED, has_rows
from dpsgd_explorer.dp.modules.pytree import tensors_of
from dpsgd_explorer.dp.modules.state import Changes, refuse_different
from dpsgd_explorer.errors import UnsupportedModuleError

#: Standard deviation of the rows that change: a module may mix large values only.
LARGE_SCALE = 100.0
#: Most rows of a batch of one sample: they exceed a capacity of 15/16 of a batch.
MOST_ALIKE = 16
#: Random calls whose samples are tried.
ALIKE_CALLS = 3
#: Standard deviation of such a sample: large, so that its positions matter little.
ALIKE_SCALE = 30.0


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
                f"the safety check must run {self._rows_compared} samples, the largest "
                f"possible batch, got {type(error).__name__}. Set physical_batch_size "
                "to limit the samples per forward pass."
            ) from error

    def _compare(self) -> None:
        self._module.eval()
        call = self._random_call(SEED)
        other = self._random_call(SEED + 1, scale=LARGE_SCALE)
        targets = self._random_targets(call)
        moved = probe_inputs.rotated(targets)
        few = call, targets
        rows = _Rows(few, (other, moved), self._rows_compared)
        self._module.train()
        norms, changes = self._norms_and_changes(rows.batch())
        for half in rows.halves:
            self._compare_half(rows, half, norms, changes)
        self._check_extreme_draws(rows)
        self._check_alike(targets, moved)
        with self._draws.at(None):
            if self._draws.drew:
                norms, changes = self._norms_and_changes(rows.batch())
            self._compare_with_few(few, norms, changes)

    def _check_extreme_draws(self, rows: _Rows) -> None:
        """Compare where numbers that the module draws are extreme."""
        own = (OWN_PATTERN,) if are_coins(self._draws.numbers) else ()
        found = patterns(self._draws.numbers, FEW_PATTERNS + own)
        for pattern, half in zip(found, cycle(rows.halves)):
            with self._draws.at(pattern):
                norms, changes = self._norms_and_changes(rows.batch())
                self._compare_half(rows, half, norms, changes, pattern)

    def _check_alike(self, targets: Any, moved: Any) -> None:
        """Compare a batch of one sample with batches of which half are others.

        Samples that compete for a few places, as tokens for an expert, mix where most
        of them want the same place.
        """
        size = min(self._rows_compared, MOST_ALIKE)
        calls = [
            self._random_call(SEED + i, scale=ALIKE_SCALE) for i in range(ALIKE_CALLS)
        ]
        other = calls[1]
        sources = [*map(probe_inputs.with_equal_positions, calls), calls[0]]
        candidates = [
            _Rows(probe_inputs.repeated((source, targets), i), (other, moved), size)
            for source in sources
            for i in range(SAMPLES)
        ]
        # Large numbers outweigh what tells their positions apart; ids do not.
        has_ids = any(not x.is_floating_point() for x in tensors_of(calls[0]))
        # The first whose copies differ: some of them found no place.
        tried = filter(self._tells_copies_apart, candidates if has_ids else ())
        rows = next(tried, candidates[0])
        norms, changes = self._norms_and_changes(rows.batch())
        finite = math.isfinite(sum(map(largest_entry, norms.values())))
        if self._ranks.largest(int(not finite)):
            return
        for half in rows.halves:
            self._compare_half(rows, half, norms, changes)

    def _tells_copies_apart(self, rows: _Rows) -> bool:
        """Whether the module's outputs differ in a batch of copies of one sample."""
        with self._draws.at(None):
            outputs = self._outputs(rows.batch()[0])
        apart = any(
            not torch.allclose(
                leaf, leaf[:1].expand_as(leaf), rtol=1e-3, atol=1e-3, equal_nan=True
            )
            for leaf in tensors_of(outputs)
            if has_rows(leaf, rows.size) and leaf.is_floating_point()
        )
        return bool(self._ranks.largest(int(apart)))  # ranks must go on together

    def _compare_half(
        self,
        rows: _Rows,
        half: Tensor,
        norms: Rows,
        changes: Changes,
        pattern: Pattern | None = None,
    ) -> None:
        """Compare the norms of half of a batch with those where the rest is another."""
        others, new = self._norms_and_changes(rows.batch(half))
        refuse_different(self._module, changes, new)
        if not self._equal(_where(norms, half), _where(others, half)):
            (mixed, _), (first, _) = rows.batch(half), rows.batch()
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


class _Rows(NamedTuple):
    """Rows from which batches are made.

    Attributes:
        kept: SAMPLES rows of inputs and targets, which a batch repeats.
        others: SAMPLES more that replace some, as they are and negated.
        size: Number of rows of a batch.
    """

    kept: Any
    others: Any
    size: int

    def batch(self, kept: Tensor | None = None) -> Any:
        """Return a batch; rows that are not kept are other ones."""
        every = torch.arange(self.size)
        rows = every % SAMPLES
        if kept is not None:
            rows = torch.where(kept, rows, SAMPLES + every % (2 * SAMPLES))
        (call, targets), (other_call, other_targets) = self.kept, self.others
        return (
            tree_map(partial(_chosen, rows, -1), call, other_call),
            tree_map(partial(_chosen, rows, 1), targets, other_targets),
        )

    @property
    def halves(self) -> tuple[Tensor, Tensor]:
        """Two halves of a batch, as masks; neither is empty."""
        generator = torch.Generator().manual_seed(SEED)
        half = torch.rand(self.size, generator=generator) < 0.5
        half[0], half[1] = True, False
        return half, ~half


def _chosen(rows: Tensor, sign: int, kept: Any, others: Any) -> Any:
    """Return rows of SAMPLES rows, SAMPLES others, and these with a sign.

    A leaf without rows stays.
    """
    if not has_rows(kept, SAMPLES):
        return kept
    again = sign * others if others.is_floating_point() else others
    return torch.cat([kept, others, again])[rows.to(kept.device)]


def _where(norms: Rows, mask: Tensor) -> Rows:
    return {name: values[mask.to(values.device)] for name, values in norms.items()}

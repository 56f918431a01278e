"""The comparisons of the safety check at the size of a real batch.

Batches of three rows show nearly all mixing, except mixing that begins at a larger
batch size.  This check compares whole batches of random rows, by the norms of their
gradients.  It costs about three steps, and the memory of one step.
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
    END_PATTERNS,
    PER_SAMPLE_PATTERN,
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
from dpsgd_explorer.dp.modules.state import Changes, check_equal_changes
from dpsgd_explorer.errors import UnsupportedModuleError

#: Standard deviation of the rows that replace others.  It is large, since a module may
#: mix large values only.
OTHERS_STD = 100.0
#: Maximum number of rows of a batch of copies.  16 copies exceed every capacity up to
#: 15/16 of the batch, for example of an expert.
MAX_COPIES = 16
#: Number of random calls; the copied sample is one of their samples.
COPY_CALLS = 3
#: Standard deviation of a copied sample.  It is large, so that positional encodings
#: change the sample little.
COPY_STD = 30.0


class RealSizeCheck(CheckPasses):
    """Compares batches of the size of a real batch; see SafetyCheck.

    Args:
        size: Number of samples per batch.
        arguments, options: The arguments of SafetyCheck.
    """

    def __init__(self, *arguments: Any, size: int, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._rows_compared = size

    def run(self) -> None:
        """Compares the batches.

        Raises:
            UnsupportedModuleError: the gradients of half of a batch depend on the other
                half, stored values depend on the samples or their number, or most
                gradients depend on the number of samples.
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
        other = self._random_call(SEED + 1, scale=OTHERS_STD)
        targets = self._random_targets(call)
        moved = probe_inputs.rotated(targets)
        few = call, targets
        rows = _Rows(few, (other, moved), self._rows_compared)
        self._module.train()
        norms, changes = self._norms_and_changes(rows.batch())
        for half in rows.halves:
            self._compare_half(rows, half, norms, changes)
        self._check_extreme_draws(rows)
        self._check_copies(targets, moved)
        with self._draws.at(None):
            if self._draws.drew:
                norms, changes = self._norms_and_changes(rows.batch())
            self._compare_with_few(few, norms, changes)

    def _check_extreme_draws(self, rows: _Rows) -> None:
        """Compares batches with the module's random draws at ends of their ranges."""
        has_coins = are_coins(self._draws.numbers)
        choice = END_PATTERNS + ((PER_SAMPLE_PATTERN,) if has_coins else ())
        extreme = patterns(self._draws.numbers, choice)
        for pattern, half in zip(extreme, cycle(rows.halves)):
            with self._draws.at(pattern):
                norms, changes = self._norms_and_changes(rows.batch())
                self._compare_half(rows, half, norms, changes, pattern)

    def _check_copies(self, targets: Any, moved: Any) -> None:
        """Compares copies of one sample when half of the copies are replaced.

        Samples may compete for a limited capacity, such as tokens for an expert.  They
        mix if most of them choose one expert, as copies of one sample do.
        """
        size = min(self._rows_compared, MAX_COPIES)
        call, other = (self._random_call(SEED + i, scale=COPY_STD) for i in range(2))

        def copies(source: Any, i: int) -> _Rows:
            kept = probe_inputs.repeated((source, targets), i)
            return _Rows(kept, (other, moved), size)

        rows = copies(probe_inputs.with_equal_positions(call), 0)
        # Large inputs outweigh positional encodings, so that copies choose one expert.
        # Embeddings of ids do not, so several samples are tried.
        if any(not leaf.is_floating_point() for leaf in tensors_of(call)):
            more = range(2, COPY_CALLS)
            calls = call, other, *(self._random_call(SEED + i, COPY_STD) for i in more)
            sources = [*map(probe_inputs.with_equal_positions, calls), call]
            candidates = [copies(x, i) for x in sources for i in range(SAMPLES)]
            # Copies with different outputs show that the capacity was exceeded.
            rows = next(filter(self._has_different_copies, candidates), rows)
        norms, changes = self._norms_and_changes(rows.batch())
        finite = math.isfinite(sum(map(largest_entry, norms.values())))
        if self._ranks.largest(int(not finite)):
            return
        for half in rows.halves:
            self._compare_half(rows, half, norms, changes)

    def _has_different_copies(self, rows: _Rows) -> bool:
        """Returns True if the module's outputs for copies of one sample differ."""
        with self._draws.at(None):
            outputs = self._outputs(rows.batch()[0])
        are_different = any(
            not torch.allclose(
                leaf, leaf[:1].expand_as(leaf), rtol=1e-3, atol=1e-3, equal_nan=True
            )
            for leaf in tensors_of(outputs)
            if has_rows(leaf, rows.size) and leaf.is_floating_point()
        )
        # All ranks must continue with one candidate.
        return bool(self._ranks.largest(int(are_different)))

    def _compare_half(
        self,
        rows: _Rows,
        half: Tensor,
        norms: Rows,
        changes: Changes,
        pattern: Pattern | None = None,
    ) -> None:
        """Compares the norms of half of a batch when the other half is replaced."""
        new_norms, new_changes = self._norms_and_changes(rows.batch(half))
        check_equal_changes(self._module, changes, new_changes)
        if not self._equal(_where(norms, half), _where(new_norms, half)):
            (mixed, _), (first, _) = rows.batch(half), rows.batch()
            calls = dict.fromkeys(half.nonzero().flatten().tolist(), mixed)
            raise UnsupportedModuleError(
                describe_mixing(self._module, first, calls, self._draws, pattern)
            )

    def _compare_with_few(self, few: Any, norms: Rows, changes: Changes) -> None:
        """Compares the norms of a batch with the norms of the rows that it repeats."""
        few_norms, few_changes = self._norms_and_changes(few)
        check_equal_changes(self._module, changes, few_changes, sizes=True)
        rows = torch.arange(self._rows_compared) % SAMPLES
        repeated = {
            name: values[rows.to(values.device)] for name, values in few_norms.items()
        }
        if not self._mostly_equal(norms, repeated):
            raise UnsupportedModuleError(self._size_message())

    def _equal(self, first: Rows, second: Rows) -> bool:
        """Returns True if the norms of two passes are equal, up to round-off."""
        limit = self._tolerance * max(map(largest_entry, first.values()), default=0.0)
        return all(
            largest_entry(values - second[unit]) <= limit
            for unit, values in first.items()
        )

    def _mostly_equal(self, first: Rows, second: Rows) -> bool:
        """Returns True if the norms of most rows are equal, up to round-off.

        Round-off may move a few rows across the 0 of a ReLU.
        """
        largest = max(float(values.max()) for values in first.values())
        close = [
            (values - second[name]).abs() <= self._tolerance * largest
            for name, values in first.items()
        ]
        return float(torch.stack(close).all(0).float().mean()) > 0.5

    def _norms_and_changes(self, batch: Any) -> tuple[Rows, Changes]:
        """Returns {unit: gradient norms [B]}, and the changes to stored values."""
        squared: list[Rows] = []
        sizes: list[int] = []

        def measure(samples: PerSampleGradients) -> None:
            # The gradients of a large batch are reduced to norms before the next part.
            squared.append(squared_norms_of(samples))
            sizes.append(len(samples))

        call, targets = batch
        self._run(call, targets, measure)
        norms = {unit: values.sqrt() for unit, values in joined(squared).items()}
        like = next(iter(norms.values()), torch.zeros(sum(sizes)))
        return {
            unit: norms.get(unit, torch.zeros_like(like))  # a unit may not have run
            for unit in self._gradient_engine.parameters()
        }, self._state.changes()


class _Rows(NamedTuple):
    """Rows that batches consist of.

    Attributes:
        kept: SAMPLES rows of inputs and targets, which a batch repeats.
        others: SAMPLES other rows, which replace kept rows, with and without the sign
            of the inputs changed.
        size: Number of rows per batch.
    """

    kept: Any
    others: Any
    size: int

    def batch(self, kept: Tensor | None = None) -> Any:
        """Returns a batch.

        Args:
            kept: Mask of the rows that are not replaced; None for all rows.
        """
        indices = torch.arange(self.size)
        rows = indices % SAMPLES
        if kept is not None:
            rows = torch.where(kept, rows, SAMPLES + indices % (2 * SAMPLES))
        (call, targets), (other_call, other_targets) = self.kept, self.others
        return (
            tree_map(partial(_chosen, rows, -1), call, other_call),
            tree_map(partial(_chosen, rows, 1), targets, other_targets),
        )

    @property
    def halves(self) -> tuple[Tensor, Tensor]:
        """Masks of two random halves of a batch, each with at least one sample."""
        generator = torch.Generator().manual_seed(SEED)
        half = torch.rand(self.size, generator=generator) < 0.5
        half[0], half[1] = True, False
        return half, ~half


def _chosen(rows: Tensor, sign: int, kept: Any, others: Any) -> Any:
    """Returns the rows with these indices; a leaf without rows stays as it is.

    Indices below SAMPLES are kept rows, the next SAMPLES are other rows, and the next
    SAMPLES are other rows times ``sign``.
    """
    if not has_rows(kept, SAMPLES):
        return kept
    signed = sign * others if others.is_floating_point() else others
    return torch.cat([kept, others, signed])[rows.to(kept.device)]


def _where(norms: Rows, mask: Tensor) -> Rows:
    return {name: values[mask.to(values.device)] for name, values in norms.items()}

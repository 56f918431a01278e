"""The safety check's comparisons at the size of a real batch.

Three rows show nearly all mixing, but not one that begins with more rows.  Here whole
batches of random rows are compared by the norms of their gradients, at the cost of
about three steps and the memory of one.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from dpsgd_explorer.dp.kernels.full_precision import full_precision
from dpsgd_explorer.dp.modules import probe_inputs
from dpsgd_explorer.dp.modules.probe_inputs import SAMPLES, SEED, has_rows
from dpsgd_explorer.dp.modules.state import Changes, refuse_different
from dpsgd_explorer.dp.safety.check import SafetyCheck
from dpsgd_explorer.dp.safety.expected_draws import expected_draws
from dpsgd_explorer.dp.safety.gradient_parts import Rows, Samples, largest_entry
from dpsgd_explorer.dp.safety.mixing_module import describe_mixing
from dpsgd_explorer.errors import UnsupportedModuleError

#: Standard deviation of the rows that change: a module may mix large values only.
LARGE_SCALE = 100.0
#: Rows that the search for the mixing module compares.
SHOWN = 2


class RealSizeCheck(SafetyCheck):
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
        with self._session():
            self._module.eval()
            call = self._random_call(SEED)
            other = self._random_call(SEED + 1, scale=LARGE_SCALE)
            targets = self._random_targets(call)
            rows = torch.arange(self._rows_compared) % SAMPLES
            few = call, targets
            first = _spread(few, rows)
            second = _spread((other, probe_inputs.rotated(targets)), rows)
            self._module.train()
            with expected_draws():
                norms, changes = self._norms_and_changes(first)
                self._compare_halves(first, second, norms, changes)
                self._compare_with_few(few, rows, norms, changes)

    def _compare_halves(
        self, first: Any, second: Any, norms: Rows, changes: Changes
    ) -> None:
        generator = torch.Generator().manual_seed(SEED)
        half = torch.rand(self._rows_compared, generator=generator) < 0.5
        half[0], half[1] = True, False  # neither half is empty
        for mask in (half, ~half):
            mixed = tree_map(lambda a, b, k=mask: _rows_of(k, a, b), first, second)
            others, new = self._norms_and_changes(mixed)
            refuse_different(self._module, changes, new)
            if not self._equal(_where(norms, mask), _where(others, mask)):
                shown = mask.nonzero().flatten()[:SHOWN].tolist()
                calls = dict.fromkeys(shown, mixed[0])
                raise UnsupportedModuleError(
                    describe_mixing(self._module, first[0], calls, SEED)
                )

    def _compare_with_few(
        self, few: Any, rows: Tensor, norms: Rows, changes: Changes
    ) -> None:
        """Compare a batch's norms with those of the SAMPLES rows that it repeats."""
        of_few, new = self._norms_and_changes(few)
        refuse_different(self._module, changes, new, sizes=True)
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
        samples, changes = self._samples_and_changes(*batch)
        size = sum(len(part) for part in samples)
        return {
            unit: _norms(unit, samples, size)
            for unit in self._gradient_engine.parameters()
        }, changes


def _norms(unit: str, samples: Samples, size: int) -> Tensor:
    with full_precision():
        squared = [part.squared_norms() for part in samples]
    if any(unit not in part for part in squared):
        others = [values for part in squared for values in part.values()]
        return others[0].new_zeros(size) if others else torch.zeros(size)
    return torch.cat([part[unit] for part in squared]).sqrt()


def _spread(tree: Any, rows: Tensor) -> Any:
    """Return the tree with its SAMPLES rows at these indices."""
    return tree_map(lambda x: x[rows.to(x.device)] if has_rows(x, SAMPLES) else x, tree)


def _rows_of(mask: Tensor, first: Any, other: Any) -> Any:
    """Return ``first`` where the mask is true, else ``other``, row by row."""
    if not has_rows(first, len(mask)):
        return first
    shape = [len(mask), *[1] * (first.dim() - 1)]
    return torch.where(mask.to(first.device).view(shape), first, other)


def _where(norms: Rows, mask: Tensor) -> Rows:
    return {name: values[mask.to(values.device)] for name, values in norms.items()}

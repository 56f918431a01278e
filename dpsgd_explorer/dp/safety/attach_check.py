"""Decides before which passes the safety check runs."""

from __future__ import annotations

from typing import Any

from dpsgd_explorer.dp.clipping.clipper import Clipper
from dpsgd_explorer.dp.distributed.ranks import ALONE, Ranks
from dpsgd_explorer.dp.engines.base import GradientEngine
from dpsgd_explorer.dp.kernels.memory_pool import POOL
from dpsgd_explorer.dp.modules.probe_inputs import SAMPLES
from dpsgd_explorer.dp.modules.refused import refuse_by_kind
from dpsgd_explorer.dp.modules.structure import Structure
from dpsgd_explorer.dp.safety.check import SafetyCheck
from dpsgd_explorer.dp.safety.real_batch_check import RealSizeCheck

#: Verified structures that are stored: a hook that comes and goes is checked once.
MOST_CHECKED = 4


class PassCheck:
    """Checks a module before its first pass, and again when a pass is not covered.

    A pass is not covered when the module's structure has changed, or when its batch is
    more than twice as large as any before: then the part at a real batch's size runs
    again.  A failed check runs again before the next pass.

    Args:
        gradient_engine: Computes the per-sample gradients.
        clipper: Clips them.
        ranks: The processes whose passes go together, as those of a sharded module: a
            check is then made by all, at the size of the largest batch.
    """

    def __init__(
        self,
        gradient_engine: GradientEngine,
        clipper: Clipper,
        ranks: Ranks = ALONE,
    ) -> None:
        self._gradient_engine = gradient_engine
        self._clipper = clipper
        self._ranks = ranks
        self._checked: list[tuple[Structure, int]] = []

    def __call__(self, args: Any, kwargs: Any, size: int, **loss: Any) -> None:
        """Run the checks that a pass with these inputs, of B samples, still needs."""
        size = self._ranks.largest(size)
        largest = self._largest()
        arguments = self._gradient_engine, self._clipper, args, kwargs, self._ranks
        if loss or largest is None:
            refuse_by_kind(self._gradient_engine.module)
            SafetyCheck(*arguments, **loss).run()
            largest = SAMPLES
        elif size <= self._sufficient(largest):
            return
        if size > self._sufficient(largest):
            RealSizeCheck(*arguments, size=size, **loss).run()
            largest = size
        POOL.release()  # what comes has other sizes
        self._remember(largest)

    def _largest(self) -> int | None:
        """Return the largest verified batch size of the present structure, or None."""
        if self._gradient_engine.verified is not None:
            return self._checked[0][1]
        for i, (structure, largest) in enumerate(self._checked):
            if structure.holds():
                self._checked.insert(0, self._checked.pop(i))
                self._gradient_engine.verified = structure
                return largest
        return None

    def _sufficient(self, largest: int) -> int:
        # Doubling keeps the number of checks logarithmic in the batch size.  Three rows
        # are no real batch, so the first real one is always checked.
        return largest if largest == SAMPLES else 2 * largest

    def _remember(self, largest: int) -> None:
        structure = Structure(self._gradient_engine.module)
        others = [entry for entry in self._checked if not entry[0].holds()]
        self._checked = [(structure, largest), *others[: MOST_CHECKED - 1]]
        self._gradient_engine.verified = structure

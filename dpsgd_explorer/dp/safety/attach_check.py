"""Decides which passes the safety check precedes."""

from __future__ import annotations

from typing import Any

from dpsgd_explorer.dp.clipping.clipper import Clipper
from dpsgd_explorer.dp.engines.base import GradientEngine, batch_size_of
from dpsgd_explorer.dp.modules.probe_inputs import SAMPLES
from dpsgd_explorer.dp.modules.refused import refuse_by_kind
from dpsgd_explorer.dp.modules.structure import Structure
from dpsgd_explorer.dp.safety.check import SafetyCheck
from dpsgd_explorer.dp.safety.real_batch_check import RealSizeCheck

MOST_PROVEN = 4
"""Structures that need no check when they come back, as with a hook now and then."""


class PassCheck:
    """Checks a module before its first pass, and again where that proof ends.

    It ends when the module's structure is another, and its part at a real batch's size
    when a batch is more than twice as large as any before.  A failed check runs again
    before the next pass.

    Args:
        gradient_engine: Computes the per-sample gradients.
        clipper: How they are clipped.
    """

    def __init__(self, gradient_engine: GradientEngine, clipper: Clipper) -> None:
        self._gradient_engine = gradient_engine
        self._clipper = clipper
        self._proven: list[tuple[Structure, int]] = []

    def __call__(self, args: Any, kwargs: Any, **loss: Any) -> None:
        """Run what checks a pass with these inputs needs."""
        size = batch_size_of(args, kwargs)
        largest = self._largest()
        asked = self._gradient_engine, self._clipper, args, kwargs
        if loss or largest is None:
            refuse_by_kind(self._gradient_engine.module)
            SafetyCheck(*asked, **loss).run()
            largest = SAMPLES
        elif size <= self._sufficient(largest):
            return
        if size > self._sufficient(largest):
            RealSizeCheck(*asked, **loss).run()
            largest = size
        self._remember(largest)

    def _largest(self) -> int | None:
        """Return the largest size at which the module was proven as it is now."""
        if self._gradient_engine.verified is not None:
            return self._proven[0][1]
        for i, (structure, largest) in enumerate(self._proven):
            if structure.holds():
                self._proven.insert(0, self._proven.pop(i))
                self._gradient_engine.verified = structure
                return largest
        return None

    def _sufficient(self, largest: int) -> int:
        return largest if largest == SAMPLES else 2 * largest

    def _remember(self, largest: int) -> None:
        structure = Structure(self._gradient_engine.module)
        others = [each for each in self._proven if not each[0].holds()]
        self._proven = [(structure, largest), *others[: MOST_PROVEN - 1]]
        self._gradient_engine.verified = structure

"""Decides before which passes the safety check runs."""

from __future__ import annotations

import logging
import math
from typing import Any

from dpsgd_explorer.dp.backends import release_memory
from dpsgd_explorer.dp.checks.check import SafetyCheck
from dpsgd_explorer.dp.checks.real_batch_check import RealSizeCheck
from dpsgd_explorer.dp.clipping.clipper import Clipper
from dpsgd_explorer.dp.distributed.ranks import ALONE, Ranks
from dpsgd_explorer.dp.engines.base import GradientEngine
from dpsgd_explorer.dp.modules.probe_inputs import SAMPLES
from dpsgd_explorer.dp.modules.refused import refuse_by_kind
from dpsgd_explorer.dp.modules.structure import Structure

log = logging.getLogger(__name__)

#: Standard deviations of a batch's size above its mean: 1e-9 of all draws are larger.
DEVIATIONS = 6
#: Verified structures that are stored: a hook that comes and goes is checked once.
MOST_CHECKED = 4


def likely_size(expected: float, most: int | None) -> int:
    """Return the largest size of a Poisson batch, or of a part, that is likely.

    256 expected samples give 352: 256 + 6 * 16.

    Args:
        expected: Expected size of a batch, as the sample rate times the data set.
        most: Most samples per part, if batches are split.
    """
    largest = math.ceil(expected + DEVIATIONS * math.sqrt(expected))
    return largest if most is None else min(largest, most)


class PassCheck:
    """Checks a module before its first pass, and again when a pass is not covered.

    A pass is not covered when the module's structure has changed, or when its batch is
    larger than any before: then the part at a real batch's size runs again.  A failed
    check runs again before the next pass.

    Args:
        gradient_engine: Computes the per-sample gradients.
        clipper: Clips them.
        ranks: The processes whose passes go together, as those of a sharded module: a
            check is then made by all, at the size of the largest batch.
        likely_size: Largest batch that will probably be drawn, or the largest part of
            one: the first check is made at that size.
    """

    def __init__(
        self,
        gradient_engine: GradientEngine,
        clipper: Clipper,
        ranks: Ranks = ALONE,
        likely_size: int = 0,
    ) -> None:
        self._gradient_engine = gradient_engine
        self._clipper = clipper
        self._ranks = ranks
        self._likely_size = likely_size
        self._checked: list[tuple[Structure, int]] = []

    def __call__(self, args: Any, kwargs: Any, size: int, **loss: Any) -> None:
        """Run the checks that a pass with these inputs, of B samples, still needs."""
        size = self._ranks.largest(size)
        largest = self._largest()
        if not loss and largest is not None and size <= largest:
            return
        log.info(
            "checking that the samples of a batch do not influence each other in the "
            "model"
        )
        if loss or largest is None:
            refuse_by_kind(self._gradient_engine.module)
            SafetyCheck(*self._arguments(args, kwargs), **loss).run()
            release_memory()  # no later pass fills its blocks
            largest = SAMPLES
        largest = max(size, self._likely_size, largest)
        if largest > SAMPLES:
            RealSizeCheck(*self._arguments(args, kwargs), size=largest, **loss).run()
        release_memory()  # later passes have other sizes
        self._remember(largest)

    def _arguments(self, args: Any, kwargs: Any) -> tuple[Any, ...]:
        return self._gradient_engine, self._clipper, args, kwargs, self._ranks

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

    def _remember(self, largest: int) -> None:
        structure = Structure(self._gradient_engine.module)
        others = [entry for entry in self._checked if not entry[0].holds()]
        self._checked = [(structure, largest), *others[: MOST_CHECKED - 1]]
        self._gradient_engine.verified = structure

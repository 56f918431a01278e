"""Decides before which forward passes the safety check runs."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Any

from dpsgd_explorer.dp.backends import release_memory
from dpsgd_explorer.dp.checks.check import SafetyCheck
from dpsgd_explorer.dp.checks.real_batch_check import RealSizeCheck
from dpsgd_explorer.dp.clipping.clipper import Clipper
from dpsgd_explorer.dp.distributed.ranks import ALONE, Ranks
from dpsgd_explorer.dp.engines.base import GradientEngine
from dpsgd_explorer.dp.modules.probe_inputs import SAMPLES
from dpsgd_explorer.dp.modules.rejected import check_kinds
from dpsgd_explorer.dp.modules.structure import Structure
from dpsgd_explorer.errors import UnsupportedModuleError

log = logging.getLogger(__name__)

#: Distance of the likely largest batch size from the mean, in standard deviations.  A
#: Poisson batch is larger with probability 1e-9.
MAX_SIZE_DEVIATIONS = 6
#: Number of verified structures that are stored.  A module that changes between a few
#: structures, for example by a hook that comes and goes, is checked once for each.
MAX_STRUCTURES = 4


def likely_size(expected: float, max_size: int | None) -> int:
    """Returns the largest likely number of samples of one forward pass.

    Worked example: 256 expected samples give 256 + 6 * 16 = 352.

    Args:
        expected: Expected size of a Poisson batch: sample rate times number of records.
        max_size: Maximum number of samples per part of a batch; None without parts.
    """
    largest = math.ceil(expected + MAX_SIZE_DEVIATIONS * math.sqrt(expected))
    return largest if max_size is None else min(largest, max_size)


class PassCheck:
    """Checks a module before its first pass, and again when a pass is not covered.

    A pass is not covered if the module's structure has changed since the check, or if
    its batch is larger than all checked batches; then only the comparison at the size
    of a real batch runs again.  A failed check runs again before the next pass.

    Args:
        gradient_engine: The engine that computes the per-sample gradients.
        clipper: The clipper of these gradients.
        ranks: The processes that run every pass together, such as the ranks of a
            sharded module.  All of them run the check, at their largest batch size.
        likely_size: Largest likely number of samples of a pass.  The first check has
            at least this size.
        is_part: Function that returns True if further parts of the batch follow.  The
            part is then as large as parts get, and replaces the likely size.
    """

    def __init__(
        self,
        gradient_engine: GradientEngine,
        clipper: Clipper,
        ranks: Ranks = ALONE,
        likely_size: int = 0,
        is_part: Callable[[], bool] = bool,
    ) -> None:
        self._gradient_engine = gradient_engine
        self._clipper = clipper
        self._ranks = ranks
        self._likely_size, self._is_part = likely_size, is_part
        self._checked: list[tuple[Structure, int]] = []

    def __call__(self, args: Any, kwargs: Any, size: int, **loss: Any) -> None:
        """Runs the checks that a pass still needs.

        Args:
            args: Positional arguments of the module.
            kwargs: Keyword arguments of the module.
            size: Number of samples, B.
            **loss: ``loss_fn`` and ``targets`` of SafetyCheck, to check the loss too.

        Raises:
            UnsupportedModuleError: a check failed.
        """
        if not self._ranks.is_alone:
            size = self._ranks.largest(size)
        largest = self._largest()
        if not loss and largest is not None and size <= largest:
            return
        log.info(
            "checking that the samples of a batch do not influence each other in the "
            "model"
        )
        if loss or largest is None:
            check_kinds(self._gradient_engine.module)
            self._check_few(*self._arguments(args, kwargs), **loss)
            release_memory()  # later passes have other sizes
            largest = SAMPLES
        likely_size = 0 if self._is_part() else self._likely_size
        largest = max(size, likely_size, largest)
        if largest > SAMPLES:
            RealSizeCheck(*self._arguments(args, kwargs), size=largest, **loss).run()
        release_memory()
        self._remember(largest)

    def _check_few(self, *arguments: Any, **loss: Any) -> None:
        """Runs the safety check, and again while the engine finds another way to run.

        If all ways fail, the error of the first is raised.
        """
        first: UnsupportedModuleError | None = None
        while True:
            try:
                return SafetyCheck(*arguments, **loss).run()
            except UnsupportedModuleError as error:
                first = first or error
                if not self._gradient_engine.adapt():
                    raise first from first.__cause__

    def _arguments(self, args: Any, kwargs: Any) -> tuple[Any, ...]:
        return self._gradient_engine, self._clipper, args, kwargs, self._ranks

    def _largest(self) -> int | None:
        """Returns the largest checked batch size of the present structure, or None."""
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
        self._checked = [(structure, largest), *others[: MAX_STRUCTURES - 1]]
        self._gradient_engine.verified = structure

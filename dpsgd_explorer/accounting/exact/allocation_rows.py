"""Numbers of steps with random allocation: simpler runs, and many runs together.

Known slots give a bound that needs no grid.  An observer who knows the slot of a
record sees one Gaussian step per epoch, and hiding the slot reveals nothing.

Notation: S rows of steps.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dpsgd_explorer.accounting.core.accountant import Floats
from dpsgd_explorer.accounting.core.phase import AllocationPhase, Phase, StepCounts
from dpsgd_explorer.accounting.exact.allocation_runs import AllocationRun, KeptCurves

#: Parts of an epoch after which ε is computed if many answers are requested.
EPOCH_PARTS = 8


def with_known_slots(run: StepCounts) -> StepCounts:
    """Returns the steps of each row, if an observer knew every record's slot."""
    phases: list[Phase] = []
    counts = run.counts.copy()
    for i, phase in enumerate(run.phases):
        if isinstance(phase, AllocationPhase):
            counts[:, i] = np.ceil(counts[:, i] / phase.slots)
            phase = Phase(1.0, phase.noise_multiplier, 0)
        phases.append(phase)
    return StepCounts(phases, counts, run.relation)


def at_parts_of_epochs(run: StepCounts) -> StepCounts:
    """Returns the rows, each with steps up to the next of EPOCH_PARTS of its epoch."""
    counts = run.counts.copy()
    for i, phase in enumerate(run.phases):
        if isinstance(phase, AllocationPhase):
            epochs, rest = np.divmod(counts[:, i], phase.slots)
            part = math.ceil(phase.slots / EPOCH_PARTS)
            rest = np.minimum(np.ceil(rest / part) * part, phase.slots)
            counts[:, i] = epochs * phase.slots + rest
    return replace(run, counts=counts)


def quick_epsilons(run: StepCounts, delta: float, most: Floats) -> Floats:
    """Returns upper bounds on ε of each row, from one grid of middle size; [S].

    Args:
        run: Rows with few different incomplete epochs, so that these share curves.
        delta: In (0, 1).
        most: Upper bounds on ε, [S].
    """
    found: dict[tuple[float, ...], float] = {}
    kept: KeptCurves = {}
    steps = run.counts.sum(axis=1)
    for row in np.argsort(-steps, kind="stable"):  # the grids of the longest row fit
        key = tuple(run.counts[row].tolist())
        if key not in found and 0 < most[row] < math.inf:
            allocated = AllocationRun(run.rows([row]), kept)
            found[key] = allocated.quick_epsilon(delta, float(most[row]))
    rows = zip(run.counts.tolist(), most.tolist(), strict=True)
    return np.array([min(found.get(tuple(counts), x), x) for counts, x in rows])


def has_sampled_epochs(run: StepCounts) -> bool:
    """Returns True if a row has steps of epochs with more than one slot."""
    return any(
        isinstance(phase, AllocationPhase) and phase.slots > 1 and count > 0
        for phase, count in zip(run.phases, run.counts.max(axis=0), strict=True)
    )

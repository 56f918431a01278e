"""Groups of phases: steps with about equal noise count as one phase.

The accountant evaluates each phase separately, and an audit evaluates the run dozens of
times.  With the smallest noise of each group, δ of the run is bounded from above; with
the largest noise, from below.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from dpsgd_explorer.accounting.core.phase import Phase, count_settings


def grouped(
    phases: Sequence[Phase], most: int, noise: Callable[[Iterable[float]], float]
) -> list[Phase]:
    """Returns the steps with at most ``most`` noise multipliers per sample rate.

    Args:
        phases: Phases with noise, at least one.
        most: Largest number of groups per sample rate.  Phases with at most this
            number of different settings are returned unchanged.
        noise: ``min`` or ``max``: picks the noise multiplier of a group.
    """
    if count_settings(phases) <= most:
        return list(phases)
    logs = [math.log(phase.noise_multiplier) for phase in phases]
    least, width = min(logs), max(logs) - min(logs)
    groups = defaultdict(list)
    for phase, log in zip(phases, logs, strict=True):
        index = min(int((log - least) / width * most), most - 1) if width else 0
        groups[phase.sample_rate, index].append(phase)
    return [
        Phase(
            rate,
            noise(phase.noise_multiplier for phase in group),
            sum(phase.steps for phase in group),
        )
        for (rate, _), group in groups.items()
    ]

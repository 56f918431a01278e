"""Fewer phases in place of many: steps of about equal noise count as one setting.

Each phase is an evaluation of its own; an audit evaluates the family dozens of times.
With the least noise of each group the run's δ is bounded above, with the most below.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from dpsgd_explorer.accounting.core.phase import Phase, different


def grouped(
    phases: Sequence[Phase], most: int, noise: Callable[[Iterable[float]], float]
) -> list[Phase]:
    """Return the steps with at most ``most`` noise multipliers per sample rate.

    Args:
        phases: With noise, at least one.
        most: Phases with so few different settings are returned as they are.
        noise: ``min`` or ``max``: of those in a group.
    """
    if different(phases) <= most:
        return list(phases)
    logs = [math.log(phase.noise_multiplier) for phase in phases]
    least, width = min(logs), max(logs) - min(logs)
    groups = defaultdict(list)
    for phase, log in zip(phases, logs, strict=True):
        place = min(int((log - least) / width * most), most - 1) if width else 0
        groups[phase.sample_rate, place].append(phase)
    return [
        Phase(
            rate,
            noise(phase.noise_multiplier for phase in group),
            sum(phase.steps for phase in group),
        )
        for (rate, _), group in groups.items()
    ]

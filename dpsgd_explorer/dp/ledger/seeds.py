"""Seeds of seeded noise that were used in this process.

Two runs with one seed add the same noise, so it cancels in the difference of what they
release, unless both are the very same run.
"""

from __future__ import annotations

from collections.abc import Hashable

#: {seed: settings of the runs whose noise it has drawn}.
_RUNS: dict[int, set[Hashable]] = {}


def note(seed: int, run: Hashable) -> bool:
    """Record that a run draws noise from a seed; return True if another one did.

    Args:
        seed: The seed.
        run: The run's settings; equal ones are the same run again.
    """
    runs = _RUNS.setdefault(seed, set())
    runs.add(run)
    return len(runs) > 1

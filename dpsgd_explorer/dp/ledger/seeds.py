"""Seeds of seeded noise that were used in this process.

Two different runs with one seed add equal noise, so it cancels in the difference of
their releases.  Repeating one run with its seed releases nothing new.
"""

from __future__ import annotations

from collections.abc import Hashable

#: {seed: settings of the runs that drew noise from it}.
_RUNS: dict[int, set[Hashable]] = {}


def record(seed: int, run: Hashable) -> bool:
    """Records that a run draws noise from a seed.

    Args:
        seed: The seed.
        run: The run's settings; equal settings count as a repetition of one run.

    Returns:
        True if another run drew noise from the seed.
    """
    runs = _RUNS.setdefault(seed, set())
    runs.add(run)
    return len(runs) > 1

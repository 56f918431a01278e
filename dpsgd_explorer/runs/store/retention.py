"""Removal of deleted and old runs, and release of the free space.

Each transaction does a small part of the work, so that other writers wait only briefly.
"""

from __future__ import annotations

from dpsgd_explorer.runs.store import admission
from dpsgd_explorer.runs.store.site import rosters
from dpsgd_explorer.runs.store.store import RunStore

DAY = 24 * 60 * 60
RUNS_PER_STEP = 20  # runs deleted per transaction
PAGES_PER_STEP = 2_000  # database pages of 4 KiB released per transaction


def sweep(store: RunStore, keep_days: float | None) -> None:
    """Purges deleted runs, and deletes old launches and old runs.

    Args:
        store: Store of the runs.
        keep_days: Days to keep ended runs; None keeps them forever.
    """
    while store.purge(RUNS_PER_STEP):
        pass
    with store.database.write(ends=True) as connection:
        admission.forget_old(connection, store.clock())
    while keep_days is not None and step(store, keep_days):
        pass


def step(store: RunStore, keep_days: float) -> int:
    """Deletes some old runs, or else old classes and releases free pages.

    Returns:
        Number of deleted runs or released pages; 0 if nothing is left to do.
    """
    now = store.clock()
    before = now - keep_days * DAY
    deleted = store.delete_ended(before, RUNS_PER_STEP)
    if not deleted:
        with store.database.write(ends=True) as connection:
            rosters.drop_old(connection, now, before)
    return deleted or store.database.shrink(PAGES_PER_STEP)

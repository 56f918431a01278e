"""Removal of deleted and old runs, and release of the free space.

Each call does a small part of the work, so that the worker and other writers wait only
briefly.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from dpsgd_explorer.errors import ExplorerError
from dpsgd_explorer.runs.store.site import rosters
from dpsgd_explorer.runs.store.store import RunStore

DAY = 24 * 60 * 60
RUNS_PER_STEP = 20  # runs deleted per call
PAGES_PER_STEP = 2_000  # database pages of 4 KiB released per call
logger = logging.getLogger(__name__)


class Sweep:
    """Purges deleted runs, and deletes old runs once per day.

    Args:
        store: Store of the runs.
        keep_days: Days to keep ended runs; None keeps them forever.
        clock: Returns seconds for the daily schedule.
    """

    def __init__(
        self,
        store: RunStore,
        keep_days: int | None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._keep_days, self._clock = store, keep_days, clock
        self._due = clock()

    def tend(self) -> None:
        """Does a small part of the due work; called periodically."""
        self._purge()
        if self._keep_days is None or self._clock() < self._due:
            return
        try:
            if not step(self._store, self._keep_days):
                self._due = self._clock() + DAY
        except ExplorerError as error:
            logger.warning("old runs could not be deleted: %s", error)
            self._due = self._clock() + DAY

    def _purge(self) -> None:
        try:
            self._store.purge(RUNS_PER_STEP)
        except ExplorerError as error:
            logger.warning("deleted runs could not be purged: %s", error)


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

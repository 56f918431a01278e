"""Delete runs that their visitors deleted or that ended long ago; give space back.

Each step is small, so that neither its worker nor any writer waits for long.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from dpsgd_explorer.errors import ExplorerError
from dpsgd_explorer.runs.store.site import rosters
from dpsgd_explorer.runs.store.store import RunStore

DAY = 24 * 60 * 60
RUNS_A_STEP = 20
PAGES_A_STEP = 2_000  # of 4 KiB
logger = logging.getLogger(__name__)


class Sweep:
    """Deletes what visitors deleted, and once a day what ended some days ago."""

    def __init__(
        self,
        store: RunStore,
        keep_days: int | None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Do nothing yet.

        Args:
            store: Where the runs are.
            keep_days: Days to keep them; None: for ever.
            clock: Gives seconds, for the next day only.
        """
        self._store, self._keep_days, self._clock = store, keep_days, clock
        self._due = clock()

    def tend(self) -> None:
        """Do a small part of what is due; call again and again."""
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
            self._store.purge(RUNS_A_STEP)
        except ExplorerError as error:
            logger.warning("deleted runs could not be purged: %s", error)


def step(store: RunStore, keep_days: float) -> int:
    """Delete some old runs, and old classes; or give some space back; 0: none is."""
    now = store.clock()
    before = now - keep_days * DAY
    deleted = store.delete_ended(before, RUNS_A_STEP)
    if not deleted:
        with store.database.write(ends=True) as connection:
            rosters.drop_old(connection, now, before)
    return deleted or store.database.shrink(PAGES_A_STEP)

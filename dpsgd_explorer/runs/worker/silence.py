"""Explanations for a run without events, logged as ``progress``.

Between two events a run may compute features, prepare, take a long step, or wait while
other processes use the cores.  Linux counts the time for which a thread could have run
but had no core (``/proc/self/schedstat``).
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dpsgd_explorer.experiments.events import Event
from dpsgd_explorer.runs.worker.event_writer import EventWriter

# Time without an event after which a run reports the progress of its features.
PROGRESS_SECONDS = 0.5
# Time without an event after which a run reports the reason.
SILENCE_SECONDS = 1.5
POLL_SECONDS = 0.5
# Share of a core below which the reported reason is other processes.
MIN_CORE_SHARE = 0.7
# The file contains: nanoseconds on a core, nanoseconds waiting for a core, time slices.
SCHEDULED = Path("/proc/self/schedstat")


class EventReporter:
    """Stores the events of a run and the progress of its features.

    Attributes:
        silent_since: Time of the last event, by the monotonic clock.
        has_stepped: True if a step was reported.
        rests: True while the run is paused.
    """

    def __init__(self, writer: EventWriter) -> None:
        self._writer = writer
        self.silent_since = time.monotonic()
        self.has_stepped = False
        self.rests = False

    @contextmanager
    def at_rest(self) -> Iterator[None]:
        """Suppresses explanations within the context, while the run is paused."""
        self.rests = True
        try:
            yield
        finally:
            self.silent_since = time.monotonic()
            self.rests = False

    def report(self, event: Event) -> None:
        """Stores an event."""
        self._writer.add(event)
        self.silent_since = time.monotonic()
        self.has_stepped |= event.kind == "step"

    def report_progress(self, done: int, total: int) -> None:
        """Stores the number of computed rows of features after some silence."""
        if time.monotonic() - self.silent_since >= PROGRESS_SECONDS:
            data = {"what": "features", "done": done, "total": total}
            self.report(Event("progress", data))

    def report_reason(self, data: dict[str, Any]) -> None:
        """Stores the reason of a silence, without ending the silence."""
        self._writer.add(Event("progress", data))


class Silence:
    """A context manager that logs the reason of a silence of the run."""

    def __init__(self, reporter: EventReporter) -> None:
        self._reporter = reporter
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="silence", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        explained, before = -1.0, scheduled()
        while not self._ended.wait(POLL_SECONDS):
            silent_since = self._reporter.silent_since
            is_due = time.monotonic() - silent_since >= SILENCE_SECONDS
            if not is_due or explained == silent_since or self._reporter.rests:
                before = before if is_due else scheduled()
                continue
            explained = silent_since
            share = share_of_core(before, scheduled())
            self._reporter.report_reason(
                reason(share, has_stepped=self._reporter.has_stepped)
            )


def reason(share: float, *, has_stepped: bool) -> dict[str, Any]:
    """Returns the data of a ``progress`` event that explains a silence.

    Args:
        share: Share of a core that the run had during the silence.
        has_stepped: If True, the run has reported a step before.
    """
    if share < MIN_CORE_SHARE:
        load = os.getloadavg()[0]
        return {"what": "processor", "share": round(share, 2), "load": round(load, 1)}
    return {"what": "step" if has_stepped else "preparation"}


def scheduled() -> tuple[int, int]:
    """Returns the main thread's nanoseconds on a core and waiting for a core."""
    try:
        running, waiting, _ = SCHEDULED.read_text().split()
    except (OSError, ValueError):  # systems other than Linux
        return 0, 0
    return int(running), int(waiting)


def share_of_core(before: tuple[int, int], after: tuple[int, int]) -> float:
    """Returns the share of a core between two readings; 1 without readings."""
    running, waiting = after[0] - before[0], after[1] - before[1]
    return running / (running + waiting) if running + waiting > 0 else 1.0

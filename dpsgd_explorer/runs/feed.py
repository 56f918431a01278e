"""Live feed of events: one thread reads the log for all listeners.

While there are listeners, the thread waits for commits and reads the new events, at
most ten times per second from SQLite.  It adds each event to the buffers of the run's
listeners.  A listener that detects a gap (it joined late, or its buffer overflowed)
reads the missing events from the table.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager

from sqlalchemy.exc import SQLAlchemyError

from dpsgd_explorer.errors import (
    ExplorerError,
    RunNotFoundError,
    StorageBusyError,
)
from dpsgd_explorer.runs.store.records import StoredEvent
from dpsgd_explorer.runs.store.store import RunStore

HEARTBEAT_SECONDS = 10.0
MAX_STREAM_SECONDS = 600.0
BUFFER_SIZE = 2000
logger = logging.getLogger(__name__)


class _Listener:
    """The buffer of one listener; when it overflows, the oldest events are dropped."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self._buffer: deque[StoredEvent] = deque(maxlen=BUFFER_SIZE)
        self._arrived = threading.Event()

    def deliver(self, event: StoredEvent) -> None:
        self._buffer.append(event)
        self._arrived.set()

    def collect(self, timeout: float) -> list[StoredEvent]:
        """Returns the new events after at most ``timeout`` seconds for the first."""
        self._arrived.wait(timeout)
        self._arrived.clear()
        return [self._buffer.popleft() for _ in range(len(self._buffer))]


class Hub:
    """Passes new events of a store to any number of listeners.

    The reading thread runs only while there are listeners.

    Args:
        store: Store of the runs.
        heartbeat_s: Seconds without an event after which ``follow`` yields None.
        longest_s: Seconds after which a stream ends.
    """

    def __init__(
        self,
        store: RunStore,
        *,
        heartbeat_s: float = HEARTBEAT_SECONDS,
        longest_s: float = MAX_STREAM_SECONDS,
    ) -> None:
        self._store = store
        self._heartbeat_s = heartbeat_s
        self._longest_s = longest_s
        self._lock = threading.Lock()
        self._listeners: set[_Listener] = set()
        self._thread: threading.Thread | None = None

    @property
    def listeners(self) -> int:
        """Number of current listeners."""
        return len(self._listeners)

    def follow(self, run_id: str, after: int = 0) -> Iterator[StoredEvent | None]:
        """Yields a run's events with ``seq > after`` as they are stored, then ends.

        None is yielded after ``heartbeat_s`` without an event, so that the caller can
        test whether its reader is still connected.  The stream ends after the run's
        last event or after ``longest_s``; the reader reconnects from its last event.
        If ``after`` is larger than the last sequence number, the latter is used.

        Raises:
            RunNotFoundError: The run does not exist.
        """
        run = self._store.get(run_id)
        after = max(0, min(after, run.last_seq))
        if run.has_ended and after == run.last_seq:
            return iter(())
        return self._stream(run_id, after)

    def _stream(self, run_id: str, after: int) -> Iterator[StoredEvent | None]:
        end = time.monotonic() + self._longest_s
        with self._listening(run_id) as listener:
            news: Iterable[StoredEvent] | None = self._stored(run_id, after)
            while news is not None:
                for event in news:
                    yield event
                    after = event.seq
                    if event.ends_run:
                        return
                rest = end - time.monotonic()
                if rest <= 0:
                    return
                arrived = listener.collect(min(rest, self._heartbeat_s))
                if not arrived:
                    yield None
                news = self._news(run_id, after, arrived)

    def _news(
        self, run_id: str, after: int, arrived: list[StoredEvent]
    ) -> Iterable[StoredEvent] | None:
        """Returns the events after ``after``; None if the run was deleted."""
        unseen = [event for event in arrived if event.seq > after]
        expected = range(after + 1, after + 1 + len(unseen))
        if arrived and [event.seq for event in unseen] == list(expected):
            return unseen
        try:
            self._store.get(run_id)
        except RunNotFoundError:
            return None
        except StorageBusyError:
            return ()  # the next heartbeat tries again
        return self._stored(run_id, after)

    def _stored(self, run_id: str, after: int) -> Iterator[StoredEvent]:
        """Yields the stored events until the end or a storage error."""
        try:
            yield from self._store.each_event(run_id, after)
        except StorageBusyError as error:
            logger.warning("run %s: %s", run_id, error)

    @contextmanager
    def _listening(self, run_id: str) -> Iterator[_Listener]:
        """Registers a listener within the context.

        The caller reads the table afterwards, so no event falls between the two.
        """
        listener = _Listener(run_id)
        with self._lock:
            if self._thread is None:
                start = self._store.last_event_id()
                self._thread = threading.Thread(
                    target=self._tail, args=(start,), name="hub", daemon=True
                )
                self._thread.start()
            self._listeners.add(listener)
        try:
            yield listener
        finally:
            with self._lock:
                self._listeners.discard(listener)

    def _tail(self, event_id: int) -> None:
        """Delivers every event after ``event_id`` while there are listeners."""
        with closing(self._store.database.wake()) as wake:
            while self._is_wanted():
                wake.wait()
                event_id = self._deliver(event_id)

    def _deliver(self, event_id: int) -> int:
        """Delivers the events after ``event_id``; returns the id of the newest."""
        try:
            rows = self._store.events_since(event_id, BUFFER_SIZE)
        except (ExplorerError, SQLAlchemyError):
            logger.exception("the log could not be read; trying again")
            return event_id
        with self._lock:
            listeners = list(self._listeners)
        for row in rows:
            event_id = row.id
            for listener in listeners:
                if listener.run_id == row.run_id:
                    listener.deliver(row)
        return event_id

    def _is_wanted(self) -> bool:
        with self._lock:
            if not self._listeners:
                self._thread = None
            return bool(self._listeners)

"""Stores the events of a run in a separate thread.

Training does not wait for the disk.  Each transaction stores all events since the last
transaction and extends the lease.  Without events, the thread only extends the lease.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

from dpsgd_explorer.errors import StorageUnreachableError
from dpsgd_explorer.experiments.events import Event
from dpsgd_explorer.runs.store.leases import Leases
from dpsgd_explorer.runs.store.records import Claim
from dpsgd_explorer.runs.worker.program import program

# Maximum number of unstored events; training waits for the disk beyond it.
MAX_WAITING_ITEMS = 10_000
HEARTBEATS_PER_LEASE = 5
# Seconds between two tests whether the thread has failed, while a caller waits for it.
FLUSH_SECONDS = 0.5
# Pause before a transaction is repeated after the loss of the server.
RETRY_SECONDS = 0.5
logger = logging.getLogger(__name__)

# bytes: a checkpoint; threading.Event: set once all earlier items are stored; None: end
Item = Event | bytes | threading.Event | None


class EventWriter:
    """A context manager that has stored every event on exit.

    If the thread fails, it stores nothing more, and the methods raise its error:
    LeaseLostError if another worker has the run, StorageFullError if the disk is full.

    Attributes:
        orders: The visitor's orders for the run, read after the last write.
    """

    def __init__(self, leases: Leases, claim: Claim, *, lease_s: float) -> None:
        """Extends the lease, which ends the hand-over by the worker."""
        self._leases, self._claim, self._lease_s = leases, claim, lease_s
        self._items: queue.Queue[Item] = queue.Queue(MAX_WAITING_ITEMS)
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="writer")
        leases.heartbeat(claim, lease_s=lease_s)
        self.orders = leases.orders(claim)

    def __enter__(self) -> Self:
        self._work_done: Future[None] = self._pool.submit(self._work)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self._put(None)
            self._work_done.result()
        finally:
            self._pool.shutdown()

    def add(self, event: Event) -> None:
        """Queues an event for storage."""
        self._put(event)

    def add_checkpoint(self, data: bytes) -> None:
        """Queues a checkpoint taken after the last added event."""
        self._put(data)

    def flush(self) -> None:
        """Waits until all queued items are stored."""
        stored = threading.Event()
        self._put(stored)
        while not stored.wait(FLUSH_SECONDS):
            if self._work_done.done():
                self._work_done.result()

    def _put(self, item: Item) -> None:
        while True:
            if self._work_done.done():
                self._work_done.result()
            try:
                return self._items.put(item, timeout=1)
            except queue.Full:
                continue

    def _work(self) -> None:
        waiting: deque[Item] = deque()
        is_open = True
        while is_open:
            self._gather(waiting)
            try:
                is_open = self._store_some(waiting)
                self.orders = self._leases.orders(self._claim)
            except StorageUnreachableError as error:
                # The transaction changed nothing, so all its items can be stored later.
                logger.warning("run %s: %s", self._claim.run_id, error)
                time.sleep(RETRY_SECONDS)

    def _gather(self, waiting: deque[Item]) -> None:
        """Takes all queued items; waits until the next heartbeat if there are none."""
        try:
            if not waiting:
                timeout = self._lease_s / HEARTBEATS_PER_LEASE
                waiting.append(self._items.get(timeout=timeout))
            while True:
                waiting.append(self._items.get_nowait())
        except queue.Empty:
            pass

    def _store_some(self, waiting: deque[Item]) -> bool:
        """Stores the next events or the next checkpoint; returns False at the end."""
        if not waiting:
            self._leases.heartbeat(self._claim, lease_s=self._lease_s)
        elif waiting[0] is None:
            return False
        elif isinstance(waiting[0], threading.Event):
            waiting[0].set()
            waiting.popleft()
        elif isinstance(waiting[0], bytes):
            data = waiting[0]
            self._leases.save_checkpoint(
                self._claim, data, program=program(), lease_s=self._lease_s
            )
            waiting.popleft()
        else:
            events = list(_first_events(waiting))
            self._leases.append(self._claim, events, lease_s=self._lease_s)
            for _ in events:
                waiting.popleft()
        return True


def _first_events(waiting: Iterable[Item]) -> Iterator[Event]:
    """Yields the events before the first item of another type."""
    for item in waiting:
        if not isinstance(item, Event):
            return
        yield item

"""Stores what a run says, in a thread of its own.

Training never waits for the disk: the thread stores what has gathered since its last
transaction in the next one, and keeps the lease while there is nothing to store.
"""

from __future__ import annotations

import queue
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

from dpsgd_explorer.experiments.events import Event
from dpsgd_explorer.runs.store.records import Claim
from dpsgd_explorer.runs.store.store import RunStore

# With this many unstored, training waits for the disk after all.
MOST_WAITING = 10_000
HEARTBEATS_IN_A_LEASE = 5

Item = Event | bytes | None  # None: nothing more will come


class EventWriter:
    """Use as a context manager: when it is left, everything is stored.

    Its methods raise what the storing met, after which nothing more is stored:
    LeaseLostError if the run is another worker's, StorageFullError if there is no
    room.
    """

    def __init__(self, store: RunStore, claim: Claim, *, lease_s: float) -> None:
        """Take the lease over from whoever made the claim."""
        self._store, self._claim, self._lease_s = store, claim, lease_s
        self._items: queue.Queue[Item] = queue.Queue(MOST_WAITING)
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="writer")
        store.heartbeat(claim, lease_s=lease_s)

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
        """Have an event stored, soon."""
        self._put(event)

    def add_checkpoint(self, data: bytes) -> None:
        """Have a checkpoint stored that was made behind the last event added."""
        self._put(data)

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
            is_open = self._store_some(waiting)

    def _gather(self, waiting: deque[Item]) -> None:
        """Take all there is; if that is nothing, wait until the next heartbeat."""
        try:
            if not waiting:
                timeout = self._lease_s / HEARTBEATS_IN_A_LEASE
                waiting.append(self._items.get(timeout=timeout))
            while True:
                waiting.append(self._items.get_nowait())
        except queue.Empty:
            pass

    def _store_some(self, waiting: deque[Item]) -> bool:
        """Store the first events, or the checkpoint before them; False at the end."""
        if not waiting:
            self._store.heartbeat(self._claim, lease_s=self._lease_s)
        elif waiting[0] is None:
            return False
        elif isinstance(waiting[0], bytes):
            data = waiting[0]
            self._store.save_checkpoint(self._claim, data, lease_s=self._lease_s)
            waiting.popleft()
        else:
            events = []
            while waiting and isinstance(waiting[0], Event):
                events.append(waiting[0])
                waiting.popleft()
            self._store.append(self._claim, events, lease_s=self._lease_s)
        return True

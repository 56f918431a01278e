"""Many readers of event streams in one thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

HEADER_SECONDS = 60.0


@dataclass
class Heard:
    """Numbers of streams and events that the readers have received.

    Attributes:
        answered: Number of answered streams.
        opened: Number of streams with status 200.
        events: Number of events on all streams.
        all_answered: Set when every stream was answered.
    """

    answered: int = 0
    opened: int = 0
    events: int = 0
    all_answered: threading.Event = field(default_factory=threading.Event)


@contextmanager
def listening(address: str, paths: Sequence[str], number: int) -> Iterator[Heard]:
    """Keep streams open within the context, cycling through the paths.

    Raises:
        TimeoutError: some streams were not answered.
    """
    heard, loop, ends = Heard(), asyncio.new_event_loop(), asyncio.Event()
    all_paths = [paths[i % len(paths)] for i in range(number)]
    reading = _listen_until(ends, address, all_paths, heard)
    thread = threading.Thread(target=loop.run_until_complete, args=(reading,))
    thread.start()
    try:
        if not heard.all_answered.wait(HEADER_SECONDS):
            raise TimeoutError(f"{heard.answered} of {number} streams were answered.")
        yield heard
    finally:
        loop.call_soon_threadsafe(ends.set)
        thread.join()
        loop.close()


async def _listen_until(
    ends: asyncio.Event, address: str, paths: Sequence[str], heard: Heard
) -> None:
    """Read all streams until ``ends`` is set."""
    tasks = [asyncio.create_task(_listen(address, path, heard)) for path in paths]
    while not ends.is_set() and heard.answered < len(paths):
        await asyncio.sleep(0.05)
    heard.all_answered.set()
    await ends.wait()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _listen(address: str, path: str, heard: Heard) -> None:
    """Read one stream until its end."""
    place = urlsplit(address)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {place.netloc}\r\n\r\n".encode())
        first = await reader.readline()
        heard.answered += 1
        heard.opened += b" 200 " in first
        while line := await reader.readline():
            heard.events += line.startswith(b"event:")
    finally:
        writer.close()

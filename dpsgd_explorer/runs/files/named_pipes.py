"""Wake-ups between the processes of one machine, through named pipes.

Each listener of a file opens a pipe in a folder next to the file.  A process that has
changed the file writes a byte to every pipe, which ends the waits.
"""

from __future__ import annotations

import errno
import os
import secrets
import select
import time
from contextlib import suppress
from pathlib import Path

SUFFIX = ".pipe"
# Pause of a listener on a file system without named pipes.
POLL_SECONDS = 0.1
READ_BYTES = 4096


class Listener:
    """Waits for changes of a file; used by one thread.

    Args:
        file: Path of the file.
    """

    def __init__(self, file: Path) -> None:
        self._pipe = _folder(file) / f"{os.getpid()}-{secrets.token_hex(4)}{SUFFIX}"
        self._number: int | None = None
        with suppress(OSError):
            self._open()

    def _open(self) -> None:
        self._pipe.parent.mkdir(mode=0o700, exist_ok=True)
        unnamed = self._pipe.with_suffix(".new")
        os.mkfifo(unnamed, 0o600)
        self._number = os.open(unnamed, os.O_RDWR | os.O_NONBLOCK)
        unnamed.rename(self._pipe)  # now it has a reader, which ``wake`` requires

    def wait(self, seconds: float) -> None:
        """Returns after the next change, or after at most ``seconds``."""
        if self._number is None:
            time.sleep(min(seconds, POLL_SECONDS))
            return
        poll = select.poll()
        poll.register(self._number, select.POLLIN)
        if poll.poll(1000 * seconds):
            with suppress(BlockingIOError):
                os.read(self._number, READ_BYTES)

    def close(self) -> None:
        """Removes the pipe."""
        if self._number is not None:
            os.close(self._number)
            self._number = None
            self._pipe.unlink(missing_ok=True)


def wake(file: Path) -> None:
    """Ends the waits of all listeners of a file; removes pipes of dead processes."""
    for pipe in _folder(file).glob(f"*{SUFFIX}"):
        try:
            number = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno == errno.ENXIO:
                pipe.unlink(missing_ok=True)
            continue
        with suppress(OSError):  # a full pipe wakes its listener anyway
            os.write(number, b".")
        os.close(number)


def _folder(file: Path) -> Path:
    return file.with_name(f"{file.name}-listeners")

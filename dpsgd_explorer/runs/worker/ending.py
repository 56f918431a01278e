"""How the process of a run ends.

At SIGTERM it takes a checkpoint between two steps before it ends.  The program that
goes on from there, perhaps a later one, has nothing to repeat.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from typing import NoReturn


class Ending:
    """The order to end.

    Attributes:
        is_asked: Whether the process is to end after the present step.
    """

    def __init__(self) -> None:
        self.is_asked = False
        self._takes_steps = False

    def install(self) -> None:
        """Take the order from now on; call in the main thread."""
        signal.signal(signal.SIGTERM, self._on_signal)

    def begin_steps(self) -> None:
        """Let the order wait for the end of a step; before, there is nothing to keep.

        Call between steps.
        """
        self._takes_steps = True

    def end(self) -> NoReturn:
        """End by the signal, as its sender expects."""
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)
        os._exit(128 + signal.SIGTERM)

    def _on_signal(self, *_: object) -> None:
        if not self._takes_steps:
            self.end()
        self.is_asked = True


def leave(code: int) -> NoReturn:
    """End at once; to take torch apart in order takes Python a second."""
    logging.shutdown()
    sys.stderr.flush()
    os._exit(code)

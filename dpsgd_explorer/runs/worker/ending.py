"""End of the training process of a run.

After SIGTERM the process stores a checkpoint between two steps and ends.  The program
that resumes the run, perhaps a later version, then has no step to repeat.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from typing import NoReturn


class Ending:
    """Handler of SIGTERM.

    Attributes:
        is_asked: True if the process must end after the current step.
    """

    def __init__(self) -> None:
        self.is_asked = False
        self._takes_steps = False

    def install(self) -> None:
        """Installs the signal handler; called in the main thread."""
        signal.signal(signal.SIGTERM, self._on_signal)

    def begin_steps(self) -> None:
        """Delays the end until the current step is done; called between steps.

        Before the first call, SIGTERM ends the process immediately.
        """
        self._takes_steps = True

    def end(self) -> NoReturn:
        """Ends the process by SIGTERM, so that its parent sees the signal."""
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)
        os._exit(128 + signal.SIGTERM)

    def _on_signal(self, *_: object) -> None:
        if not self._takes_steps:
            self.end()
        self.is_asked = True


def leave(code: int) -> NoReturn:
    """Ends the process without Python's cleanup, which takes a second with torch."""
    logging.shutdown()
    sys.stderr.flush()
    os._exit(code)

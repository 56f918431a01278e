"""The fork server of slow processes: a fault strikes even a short run midway.

It stores checkpoints soon, loads torch for no run that needs none, keeps its priority
and computes nothing ahead: so each test takes little time on a busy machine too.
The first that finds a file named ``STOP_ORDER`` removes it and stops within a write,
after as many checkpoints as the file says.
"""

import contextlib
import math
import os
import signal
import sys
import time
from pathlib import Path

from dpsgd_explorer.runs.store.leases import Leases
from dpsgd_explorer.runs.worker import child, fork_server, limits
from dpsgd_explorer.runs.worker.ending import leave

EVENT_SECONDS = 0.04
STOP_ORDER = os.environ.get("STOP_ORDER")
held, save_checkpoint = Leases._held, Leases.save_checkpoint
saved = 0


def save_and_listen(*arguments, **options):
    global saved
    save_checkpoint(*arguments, **options)
    saved += 1
    with contextlib.suppress(FileNotFoundError):
        if saved == int(Path(STOP_ORDER).read_text()):
            Leases._held = hold_and_stop


def hold_and_stop(*arguments):
    """Begin a write as usual; stop in it if so ordered."""
    run = held(*arguments)
    with contextlib.suppress(FileNotFoundError):
        Path(STOP_ORDER).unlink()
        os.kill(os.getpid(), signal.SIGSTOP)
        signal.pause()  # this thread may run on until the order reaches it
    return run


if STOP_ORDER:
    Leases.save_checkpoint = save_and_listen
# Seldom enough that, most of the time, some events are newer than the last one.
child.CHECKPOINT_SECONDS = 10 * EVENT_SECONDS
child.CHECKPOINT_SHARE = 1.0
child.IDLE_MIB = math.inf
child.load = lambda settings: None
limits.NICENESS = 0
limits.Precedence.tend = lambda self: time.sleep(EVENT_SECONDS)  # called at each event
leave(fork_server.main(sys.argv[1:]))

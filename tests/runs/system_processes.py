"""What the system knows of our processes."""

import contextlib
import os
import time
from pathlib import Path

from dpsgd_explorer.runs.worker.prctl import NAME_BYTES

# More than anything takes on a machine with ten times as much to do.
PATIENCE_SECONDS = 300


def children_of(pid):
    """Process numbers of the living children of a process."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue  # it ended meanwhile
        state, parent = text.rpartition(")")[2].split()[:2]
        if int(parent) == pid and state != "Z":
            found.append(int(stat.parent.name))
    return found


def name_of(pid):
    """Return the name that the system's lists show for a process; "" if it has ended.

    A process that has ended stays in the lists until its parent asks for its exit code.
    A test process that has run a worker is the parent of all orphans, and never asks.
    """
    with contextlib.suppress(OSError):
        name, state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)
        return "" if state.split()[0] == "Z" else name.partition("(")[2]
    return ""


def trainer_of(run_id, worker=None):
    """Return the child of a worker (ours, if none is given) that has a run's name."""
    name = f"run {run_id}"[:NAME_BYTES]
    children = children_of(worker or os.getpid())
    (trainer,) = [pid for pid in children if name_of(pid) == name]
    return trainer


def is_alive(pid):
    return state_of(pid) not in ("", "Z")


def is_stopped(pid):
    return state_of(pid) == "T"


def state_of(pid):
    """Return the kernel's letter for what a process does; "" if there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    return text.rpartition(")")[2].split()[0]


def wait_until(condition, seconds=PATIENCE_SECONDS):
    """Return the first true value of a condition that no event announces."""
    end = time.monotonic() + seconds
    pause = 0.02
    while not (value := condition()):
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(pause)
        pause = min(1.1 * pause, 0.1)  # to ask is work, too, for who is waited for
    return value

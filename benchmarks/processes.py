"""The processes of a product that we have started, as Linux counts their time."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

PROCESSES = Path("/proc")
MACHINE = PROCESSES / "stat"
# The process that loads, and those that it forks.
TRAINS = "dpsgd_explorer.runs.worker.fork_server"
TICKS = os.sysconf("SC_CLK_TCK")
PARENT, TIMES, IDLE = 1, slice(11, 15), slice(3, 5)
# A training process rests when it wants less than this share of a core.
AT_REST = 0.03
REST_SECONDS = 3.0


@dataclass(frozen=True)
class Times:
    """Processor seconds until a moment.

    Attributes:
        ours: Seconds of all processes that we have started, including ended ones.
        all: Seconds of all processes of the machine.
        at: The moment, by the monotonic clock.
    """

    ours: float
    all: float
    at: float

    @classmethod
    def now(cls) -> Times:
        """Read them."""
        stats = {pid: _stat(pid) for pid in started()}
        # The time of an ended process counts as its parent's.
        ours = sum(sum(map(int, fields[TIMES])) for fields in stats.values() if fields)
        machine = [
            int(number) for number in MACHINE.read_text().split("\n")[0].split()[1:9]
        ]
        return cls(
            ours / TICKS, (sum(machine) - sum(machine[IDLE])) / TICKS, time.monotonic()
        )

    def others_since(self, before: Times) -> float:
        """Return the cores that processes of others kept busy since then."""
        others = self.all - before.all - (self.ours - before.ours)
        return max(0.0, others / (self.at - before.at))


def started() -> set[int]:
    """Return the processes that this one has started, and theirs."""
    parents = {
        int(folder.name): int(fields[PARENT])
        for folder in PROCESSES.glob("[0-9]*")
        if (fields := _stat(int(folder.name)))
    }
    ours = {os.getpid()}
    while new := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= new
    return ours - {os.getpid()}


def rest(spares: int, patience_s: float) -> bool:
    """Waits until the spare training processes have loaded their modules.

    One that would compute and gets no core does not rest: the time for which it waits
    counts as well.

    Returns:
        Whether they rest; False when the patience is over.
    """
    end = time.monotonic() + patience_s
    while time.monotonic() < end:
        before = _wanted()
        time.sleep(REST_SECONDS)
        after = _wanted()
        if before.keys() != after.keys() or len(after) < spares:
            continue
        most = max(after[pid] - before[pid] for pid in after)
        if most < AT_REST * REST_SECONDS:
            return True
    return False


def _wanted() -> dict[int, float]:
    """Return the seconds on a core and in line for one, of each training process."""
    return {
        pid: sum(_scheduled(task) for task in (PROCESSES / str(pid) / "task").glob("*"))
        for pid in started()
        if TRAINS in _text(PROCESSES / str(pid) / "cmdline")
    }


def _scheduled(task: Path) -> float:
    times = _text(task / "schedstat").split()[:2]
    return sum(map(int, times)) / 1e9


def _stat(pid: int) -> list[str]:
    """Return the fields of a process behind its name; none if it is gone."""
    return _text(PROCESSES / str(pid) / "stat").rpartition(")")[2].split()


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""

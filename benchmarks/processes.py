"""CPU time of the processes that a benchmark has started, from Linux's counters."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

PROCESSES = Path("/proc")
MACHINE = PROCESSES / "stat"
# Module of the process that loads torch, and of the processes that it forks.
TRAINS = "dpsgd_explorer.runs.worker.fork_server"
TICKS = os.sysconf("SC_CLK_TCK")
PARENT, TIMES, IDLE = 1, slice(11, 15), slice(3, 5)
# A training process is idle if it uses or waits for less than this share of a core.
AT_REST = 0.03
REST_SECONDS = 3.0


@dataclass(frozen=True)
class Times:
    """CPU seconds up to a moment.

    Attributes:
        ours: CPU seconds of all processes that we have started, including ended ones.
        all: CPU seconds of all processes on the machine.
        at: The moment, by the monotonic clock.
    """

    ours: float
    all: float
    at: float

    @classmethod
    def now(cls) -> Times:
        """Read the current times."""
        stats = {pid: _stat(pid) for pid in started()}
        # Linux adds the time of an ended process to its parent.
        ours = sum(sum(map(int, fields[TIMES])) for fields in stats.values() if fields)
        machine = [
            int(number) for number in MACHINE.read_text().split("\n")[0].split()[1:9]
        ]
        return cls(
            ours / TICKS, (sum(machine) - sum(machine[IDLE])) / TICKS, time.monotonic()
        )

    def others_since(self, before: Times) -> float:
        """Return the number of cores that other processes have used since then."""
        others = self.all - before.all - (self.ours - before.ours)
        return max(0.0, others / (self.at - before.at))


def started() -> set[int]:
    """Return the ids of all descendants of this process."""
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
    """Wait until the spare training processes have loaded their modules.

    A process that waits for a core is not idle: its waiting time counts too.

    Returns:
        True if they are idle; False after ``patience_s`` seconds.
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
    """Return each training process's seconds on a core or waiting for one."""
    return {
        pid: sum(_scheduled(task) for task in (PROCESSES / str(pid) / "task").glob("*"))
        for pid in started()
        if TRAINS in _text(PROCESSES / str(pid) / "cmdline")
    }


def _scheduled(task: Path) -> float:
    times = _text(task / "schedstat").split()[:2]
    return sum(map(int, times)) / 1e9


def _stat(pid: int) -> list[str]:
    """Return a process's fields after its name in /proc; [] if it has ended."""
    return _text(PROCESSES / str(pid) / "stat").rpartition(")")[2].split()


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""

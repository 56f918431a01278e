"""The processes of the product: who started whom, and what each is."""

from pathlib import Path

from tests.runs.system_processes import children_of

START_SECONDS = 60


def descendants(pid):
    """All living processes below one."""
    found, layer = set(), {pid}
    while layer := {child for parent in layer for child in children_of(parent)}:
        found |= layer
    return found


def children(pid):
    return set(children_of(pid))


def has_begun(pid):
    """Our code runs in it: its second thread is there."""
    return len(list(Path(f"/proc/{pid}/task").glob("*"))) > 1


def command_of(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def alive(pids):
    return [pid for pid in pids if command_of(pid)]


def worker_of(process):
    return [pid for pid in descendants(process.pid) if " worker " in command_of(pid)]

"""A class opens the trainer at once, on a server that has just started.

Each visitor has a connection of its own and reads the whole page, as browsers ask for
it.  Times are those of a clock, on the machine that also runs the visitors; CPU time is
that of the web server alone.
"""

from __future__ import annotations

import json
import os
import statistics
import threading
import time
import urllib.request
from typing import Any

from benchmarks import processes, record
from benchmarks.service import served

VISITORS = 300
PAGE = "/train/"
ENCODINGS = ("br", "gzip")  # of most browsers; of some tools
ALLOWED_S, ALLOWED_MS = 3.0, 10.0
ROUNDS = 3
WEB = b"dpsgd_explorer.server.gunicorn"


def main() -> None:
    """Measure, print and write."""
    rows: list[dict[str, Any]] = []
    for encoding in ENCODINGS:
        with served() as address:
            rounds = [opened(address + PAGE, encoding) for _ in range(ROUNDS)]
        rows += [
            {"encoding": encoding, "round": i + 1, **r} for i, r in enumerate(rounds)
        ]
    print(json.dumps(rows, indent=1))
    bars = {"allowed_s": ALLOWED_S, "allowed_ms": ALLOWED_MS, "visitors": VISITORS}
    print(record.write("opening", bars | {"rows": rows}))


def opened(address: str, encoding: str) -> dict[str, float]:
    """Return how long visitors wait who ask at the same moment, and the CPU time."""
    waited: list[float] = []
    at_once = threading.Barrier(VISITORS + 1)

    def visit() -> None:
        request = urllib.request.Request(address, headers={"Accept-Encoding": encoding})
        at_once.wait()
        start = time.perf_counter()
        with urllib.request.urlopen(request) as answer:
            answer.read()
        waited.append(time.perf_counter() - start)

    threads = [threading.Thread(target=visit) for _ in range(VISITORS)]
    for thread in threads:
        thread.start()
    spent = web_seconds()
    at_once.wait()
    for thread in threads:
        thread.join()
    if len(waited) < VISITORS:
        raise RuntimeError(f"{VISITORS - len(waited)} of {VISITORS} got no page.")
    return {
        "median_s": statistics.median(waited),
        "last_s": max(waited),
        "processor_ms": 1000 * (web_seconds() - spent) / VISITORS,
    }


def web_seconds() -> float:
    """Return the CPU seconds of the web server's processes so far."""
    ticks = 0
    for pid in processes.started():
        folder = processes.PROCESSES / str(pid)
        if WEB in (folder / "cmdline").read_bytes():
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")

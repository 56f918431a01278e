"""Page load times of a class that opens the trainer on a server that just started.

All visitors open it at the same moment, on their own connections, and read the whole
page.  Times are wall times, on the machine that also runs the visitors; CPU time
covers the web server only.  The time to import the site is measured first.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from typing import Any

from benchmarks import processes, record
from benchmarks.site.service import served
from dpsgd_explorer.machine import THREAD_VARIABLES
from tools.marked_text import record_table

VISITORS = 300
PAGE = "/train/"
ENCODINGS = ("br", "gzip")  # of most browsers, and of some tools
ALLOWED_S, ALLOWED_MS = 3.0, 10.0
ROUNDS = 3
IMPORTS = 9
ALLOWED_IMPORT_S = 0.6
#: Without the garbage collector, like ``server.gunicorn``, because all modules stay.
IMPORT = """
import gc, time
gc.disable()
import dpsgd_explorer.web
print(time.process_time())
"""
WEB = b"dpsgd_explorer.server.gunicorn"


def main() -> None:
    """Measure, print and write the results."""
    imported = statistics.median(import_seconds() for _ in range(IMPORTS))
    rows: list[dict[str, Any]] = []
    for encoding in ENCODINGS:
        with served() as address:
            rounds = [opened(address + PAGE, encoding) for _ in range(ROUNDS)]
        rows += [
            {"encoding": encoding, "round": i + 1, **r} for i, r in enumerate(rounds)
        ]
    print(json.dumps(rows, indent=1))
    bars = {"allowed_s": ALLOWED_S, "allowed_ms": ALLOWED_MS, "visitors": VISITORS}
    site = {"import_s": imported, "allowed_import_s": ALLOWED_IMPORT_S}
    print(record.write("opening", bars | site | {"rows": rows}))


def table(results: dict[str, Any]) -> str:
    """Return the results as a table of the docs."""
    visits = record_table(
        results["rows"],
        ("page sent as", "{encoding}"),
        ("time", lambda row: "after a start" if row["round"] == 1 else "again"),
        ("median wait, s", "{median_s:.2f}"),
        ("the last has it after, s", "{last_s:.2f}"),
        ("CPU of the web server, ms a page", "{processor_ms:.1f}"),
    )
    imported = f"To import the site takes {results['import_s']:.2f} s of CPU."
    return f"{record.described(results)}\n\n{visits}\n\n{imported}"


def import_seconds() -> float:
    """Return the CPU seconds of a new process until it has imported the site.

    The process has one thread, like a server process, and finds byte code, like all
    but the first process of an installation.
    """
    environment = os.environ | dict.fromkeys(THREAD_VARIABLES, "1")
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", IMPORT]
    return float(subprocess.check_output(command, env=environment, text=True))


def opened(address: str, encoding: str) -> dict[str, float]:
    """Return the waiting and CPU times of visitors who open the page together."""
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

"""Seconds from a click on *Run* to the first point of its chart.

The product is started as a site for many starts it, and left alone until its processes
are warm.  Visitors then launch the default run (MNIST) or the run on Adult, alone or
five at the same moment, each with a cookie of its own, and read the run's log as the
page does.  After each launch the runs are stopped and the processes load again.

Wall times are those of a clock.  The processor time is that of all processes of the
product from the clicks to the last first point, over the number of visitors.
"""

from __future__ import annotations

import http.cookiejar
import json
import os
import statistics
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

from benchmarks import record
from benchmarks.service import served

TOGETHER = (1, 5)
REPEATS = 3
RUNS: dict[str, dict[str, Any]] = {
    "mnist, scattering": {},
    "adult, logistic": {"dataset": "adult", "model": "logistic", "delta": 1e-6},
}
POLL = 0.02
PATIENCE = 120.0
# The product rests when its processes take less than this share of a core.
AT_REST = 0.03
REST_SECONDS = 3.0
# A fresh folder lacks the features of MNIST, which idle processes compute.
REST_PATIENCE = 900.0
TICKS = os.sysconf("SC_CLK_TCK")
PUBLIC = {"DPSGD_PROFILE": "public", "DPSGD_QUOTA_LAUNCHES_A_DAY": "none"}


class Visitor:
    """A browser profile: it asks, and keeps its cookie."""

    def __init__(self, address: str) -> None:
        """Visit the trainer once, as whoever clicks there has."""
        self._address = address
        cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self._opener = urllib.request.build_opener(cookies)
        self._opener.open(f"{address}/train/").close()

    def ask(self, path: str, body: object = None) -> Any:
        """Return an answer as JSON values."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "Origin": self._address}
        asked = urllib.request.Request(self._address + path, data, headers)
        with self._opener.open(asked) as answer:
            return json.load(answer)

    def first_point(self, config: dict[str, Any]) -> tuple[float, dict[str, Any]]:
        """Launch a run; return the seconds to its first evaluation, and the run."""
        start = time.perf_counter()
        run = self.ask("/api/v1/runs", config)
        while time.perf_counter() < start + PATIENCE:
            log = self.ask(run["links"]["log"])
            if any(event["kind"] == "evaluation" for event in log["events"]):
                return time.perf_counter() - start, run
            time.sleep(POLL)
        raise TimeoutError(f"no point came within {PATIENCE} s: {log}")


def measure(address: str, config: dict[str, Any], together: int) -> dict[str, float]:
    """Return the seconds of some visitors who click at the same moment."""
    visitors = [Visitor(address) for _ in range(together)]
    rest()
    start = threading.Barrier(together)
    seconds: list[float] = []

    def click(visitor: Visitor) -> None:
        start.wait()
        waited, run = visitor.first_point(config)
        seconds.append(waited)
        visitor.ask(run["links"]["cancel"], {})

    before = processor_seconds()
    threads = [threading.Thread(target=click, args=(each,)) for each in visitors]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    used = (processor_seconds() - before) / together
    return {"first": min(seconds), "last": max(seconds), "processor": used}


def rest() -> None:
    """Wait until the product has loaded what it wants to."""
    end = time.monotonic() + REST_PATIENCE
    while time.monotonic() < end:
        before = processor_seconds()
        time.sleep(REST_SECONDS)
        if processor_seconds() - before < AT_REST * REST_SECONDS:
            return
    print("the product did not come to rest; it still computes features")


def processor_seconds() -> float:
    """Return the processor time of all processes that we have started.

    Those that have ended count as their parent's.
    """
    times = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        times[int(folder.name)] = (int(fields[1]), sum(map(int, fields[11:15])))
    ours = {os.getpid()}
    while new := {pid for pid, (parent, _) in times.items() if parent in ours} - ours:
        ours |= new
    return sum(times[pid][1] for pid in ours - {os.getpid()}) / TICKS


def main() -> None:
    """Measure, print and write."""
    rows = []
    with served(**PUBLIC) as address:
        for name, config in RUNS.items():
            for together in TOGETHER:
                repeats = [measure(address, config, together) for _ in range(REPEATS)]
                row = {
                    key: round(statistics.median(each[key] for each in repeats), 2)
                    for key in repeats[0]
                }
                rows.append({"run": name, "at_once": together, **row})
                print(json.dumps(rows[-1]), flush=True)
    print(record.write("first_point", {"rows": rows}))

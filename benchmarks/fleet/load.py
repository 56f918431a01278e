"""A site of several processes under load: launches, event streams, other requests.

``tools.local_fleet`` starts nginx, two web servers, PostgreSQL, Redis and one to
``MOST_WORKERS`` workers on this machine, which also runs the clients:

| figure | method |
|---|---|
| first point | seconds from launch to first point, ``TOGETHER`` launches, warm |
| launches/s | ``LAUNCHES`` by ``CLIENTS``, while ``LISTENERS`` streams are open |
| other requests | milliseconds for reading pages and plans at the same time |
"""

from __future__ import annotations

import itertools
import json
import statistics
import threading
import time
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks import record
from benchmarks.fleet.listeners import listening
from benchmarks.site.first_point import ADULT, Visitor
from tools.local_fleet import local_fleet

LAUNCHES, LISTENERS, CLIENTS = 1000, 500, 20
TOGETHER = 4
MOST_WORKERS = 2
PORT = 8160
SHORT = ADULT | {"steps": 20, "evaluations": 1}
READ = ("/", "/learn/", "/api/v1/privacy/plan", "/readyz")
PAUSE = 0.2  # seconds between two requests of one reader
READERS = 4
SITE = {
    "DPSGD_WEB_THREADS": "320",
    "DPSGD_QUOTA_QUEUED_IN_ALL": "5000",
    "DPSGD_OWN_DATA": "0",
}
STREAMED = 10  # number of runs with open streams
WARM_SECONDS = 30.0  # time for the workers' processes to load torch


class Others:
    """Visitors who read pages while others launch runs."""

    def __init__(self, address: str) -> None:
        """Start reading."""
        self._address = address
        self._ended = threading.Event()
        self.waited_ms: list[float] = []
        self.refused = 0
        self._threads = [threading.Thread(target=self._read) for _ in range(READERS)]
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Stop reading."""
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _read(self) -> None:
        for path in itertools.cycle(READ):
            start = time.perf_counter()
            try:
                with urllib.request.urlopen(self._address + path) as answer:
                    answer.read()
            except OSError:
                self.refused += 1
            self.waited_ms.append(1000 * (time.perf_counter() - start))
            if self._ended.wait(PAUSE):
                return


def first_points(address: str) -> list[float]:
    """Returns the seconds to the first points of runs launched together, sorted."""
    visitors = [Visitor(address) for _ in range(TOGETHER)]
    with ThreadPoolExecutor(TOGETHER) as pool:
        waited = pool.map(lambda each: each.first_point(ADULT)[0], visitors)
        return sorted(waited)


def launched(address: str, number: int) -> tuple[float, int]:
    """Returns launches per second, and the number of rejected launches."""
    visitors = [Visitor(address) for _ in range(CLIENTS)]

    def launch(i: int) -> bool:
        try:
            visitors[i % CLIENTS].ask("/api/v1/runs", SHORT)
        except OSError:
            return False
        return True

    start = time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as pool:
        taken = sum(pool.map(launch, range(number)))
    return taken / (time.perf_counter() - start), number - taken


def measured(workers: int, launches: int, listeners: int) -> dict[str, Any]:
    """Returns the figures of a site with the given number of workers."""
    with local_fleet(workers=workers, port=PORT, changes=SITE) as fleet:
        time.sleep(WARM_SECONDS)
        waited = first_points(fleet.address)
        paths = _streams(fleet.address)
        with listening(fleet.address, paths, listeners) as heard:
            others = Others(fleet.address)
            rate, refused = launched(fleet.address, launches)
            others.end()
        ends = statistics.quantiles(others.waited_ms, n=20)
        return {
            "workers": workers,
            "first_point_s": statistics.median(waited),
            "last_first_point_s": waited[-1],
            "launches": launches,
            "launches_a_second": rate,
            "refused": refused + others.refused,
            "listeners": heard.opened,
            "events_heard": heard.events,
            "others_median_ms": ends[9],
            "others_p95_ms": ends[18],
        }


def _streams(address: str) -> Sequence[str]:
    """Launch long runs; return the addresses of their streams."""
    visitor = Visitor(address)
    runs = [
        visitor.ask("/api/v1/runs", ADULT | {"steps": 5000}) for _ in range(STREAMED)
    ]
    return [run["links"]["events"] for run in runs]


def main(launches: int = LAUNCHES, listeners: int = LISTENERS) -> None:
    """Measure, print and write the results."""
    rows = [
        measured(workers, launches, listeners) for workers in range(1, MOST_WORKERS + 1)
    ]
    print(json.dumps(rows, indent=1))
    print(record.write("fleet", {"rows": rows}))

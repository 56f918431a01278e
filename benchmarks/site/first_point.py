"""Seconds from a click on *Run* to the first point of its chart.

Starts the product in each profile.  Visitors, each with their own cookie, launch a run
at the same moment and read the run's stream as the page does:

| state of the product | moment of the click |
|---|---|
| fresh | its first response: torch is not loaded, no features are computed |
| warm | its training processes are idle |

After each launch the runs are stopped, and the processes load again.  Times are wall
times, so the table also shows the number of cores that other processes used.
"""

from __future__ import annotations

import http.cookiejar
import json
import statistics
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from benchmarks import processes, record
from benchmarks.site.service import served
from dpsgd_explorer import machine
from dpsgd_explorer.runs.worker.process_pool import MIN_SPARES

REPEATS = 3
MNIST: dict[str, Any] = {}
ADULT: dict[str, Any] = {"dataset": "adult", "model": "logistic", "delta": 1e-6}
RUNS = {"MNIST, scattering": MNIST, "Adult, logistic": ADULT}
# Number of visitors who click at the same moment, by profile.
TOGETHER = {"public": (1, 5), "local": (1,)}
PATIENCE = 120.0
# Idle processes of a fresh product compute the features of MNIST first.
REST_PATIENCE = 300.0
NO_QUOTA = {"DPSGD_QUOTA_LAUNCHES_A_DAY": "none"}


class Visitor:
    """A client that sends requests and stores its cookie."""

    def __init__(self, address: str) -> None:
        """Open the trainer once, as a visitor has before the click."""
        self._address = address
        cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self._opener = urllib.request.build_opener(cookies)
        self._opener.open(f"{address}/train/").close()

    def ask(self, path: str, body: object) -> Any:
        """Return a response as JSON values."""
        headers = {"Content-Type": "application/json", "Origin": self._address}
        data = json.dumps(body).encode()
        asked = urllib.request.Request(self._address + path, data, headers)
        with self._opener.open(asked) as answer:
            return json.load(answer)

    def first_point(self, config: dict[str, Any]) -> tuple[float, float]:
        """Launch a run, and stop it after its first evaluation.

        Returns:
            Seconds until the evaluation, and the longest time without a message on the
            run's progress or queue.

        Raises:
            TimeoutError: there was no evaluation.
        """
        start = last = time.perf_counter()
        silence, is_explained, told = 0.0, False, ""
        run = self.ask("/api/v1/runs", config)
        for kind, data in self._events(run["links"]["events"]):
            now, told = time.perf_counter(), f"{kind} {data}"
            if not is_explained:
                silence = max(silence, now - last)
            last, is_explained = now, kind == "progress"
            if kind == "evaluation":
                self.ask(run["links"]["cancel"], {})
                return now - start, silence
        raise TimeoutError(f"the log ended without an evaluation: {told}")

    def _events(self, path: str) -> Iterator[tuple[str, str]]:
        """Yield kind and data of each event as it arrives."""
        kind = ""
        stream = self._opener.open(self._address + path, timeout=PATIENCE)
        with closing(stream):
            for line in stream:
                name, _, value = line.decode().strip().partition(": ")
                if name == "event":
                    kind = value
                elif name == "data":
                    yield kind, value


def measure(address: str, config: dict[str, Any], together: int) -> dict[str, float]:
    """Return the times of visitors who click at the same moment, in seconds."""
    visitors = [Visitor(address) for _ in range(together)]
    start = threading.Barrier(together)
    waited: list[tuple[float, float]] = []

    def click(visitor: Visitor) -> None:
        start.wait()
        waited.append(visitor.first_point(config))

    before = processes.Times.now()
    threads = [threading.Thread(target=click, args=(each,)) for each in visitors]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    after = processes.Times.now()
    seconds, silences = zip(*waited, strict=True)
    return {
        "first": min(seconds),
        "last": max(seconds),
        "silence": max(silences),
        "processor": (after.ours - before.ours) / together,
        "others": after.others_since(before),
    }


def rows_of(profile: str) -> Iterator[dict[str, Any]]:
    """Start the product in a profile and yield its visitors' waiting times."""
    together = machine.runs_at_a_time(1, for_many=profile == "public")
    resting = 1 + max(together, MIN_SPARES)  # spare processes and their parent
    with served(DPSGD_PROFILE=profile, **NO_QUOTA) as address:
        most = max(TOGETHER[profile])
        about = {"profile": profile, "product": "fresh", "run": next(iter(RUNS))}
        yield about | {"at_once": most} | measure(address, MNIST, most)
        for run, config in RUNS.items():
            for at_once in TOGETHER[profile]:
                about = {"profile": profile, "product": "warm", "run": run}
                repeats = []
                for _ in range(REPEATS):
                    if not processes.rest(resting, REST_PATIENCE):
                        about["product"] = "not at rest"
                    repeats.append(measure(address, config, at_once))
                yield about | {"at_once": at_once} | _medians(repeats)


def _medians(repeats: list[dict[str, float]]) -> dict[str, float]:
    return {key: statistics.median(each[key] for each in repeats) for key in repeats[0]}


def main() -> None:
    """Measure, print and write the results."""
    rows = []
    for profile in TOGETHER:
        for row in rows_of(profile):
            figures = {
                k: round(v, 2) if isinstance(v, float) else v for k, v in row.items()
            }
            rows.append(figures)
            print(json.dumps(figures), flush=True)
    print(record.write("first_point", {"rows": rows}))

"""Response time of ``/healthz`` while a hundred clients attack the site.

The product is started with nginx in front, without a worker.  Clients of one kind at a
time attack it, each on its own connection; meanwhile an honest client sends requests.
Times are wall times, on the machine that also runs the clients.
"""

from __future__ import annotations

import json
import statistics
import time
import urllib.request
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from benchmarks import record
from benchmarks.site.attacks import CLIENTS, KINDS, PATIENCE, attack
from benchmarks.site.service import served
from tools.marked_text import record_table

QUESTIONS = 20
PAUSE = 0.25  # seconds between two requests
ALLOWED_S = 2.0


def main() -> None:
    """Measure, print and write the results."""
    rows = []
    with served("--only", "web", DPSGD_FRONT="nginx") as address:
        port = urlsplit(address).port
        assert port is not None
        for kind in KINDS:
            with attack(port, kind) as go_on:
                waited = asked(address, go_on)
            median = statistics.median(waited)
            rows.append({"kind": kind, "median_s": median, "longest_s": max(waited)})
    print(json.dumps(rows, indent=1))
    bars = {"clients": CLIENTS, "questions": QUESTIONS, "allowed_s": ALLOWED_S}
    print(record.write("hostile", bars | {"rows": rows}))


def table(results: dict[str, Any]) -> str:
    """Return the results as a table of the docs."""
    waits = record_table(
        results["rows"],
        (f"each of {results['clients']} clients", "{kind}"),
        ("median, ms", lambda row: f"{1000 * row['median_s']:.1f}"),
        ("longest, ms", lambda row: f"{1000 * row['longest_s']:.0f}"),
    )
    return f"{record.described(results)}\n\n{waits}"


def asked(address: str, go_on: Callable[[], None]) -> list[float]:
    """Returns the seconds of each answer; the attack continues in between."""
    waited = []
    for _ in range(QUESTIONS):
        go_on()
        start = time.perf_counter()
        with urllib.request.urlopen(f"{address}/healthz", timeout=PATIENCE) as answer:
            answer.read()
        waited.append(time.perf_counter() - start)
        time.sleep(PAUSE)
    return waited

"""Waiting times of twenty clients for the privacy answers of one server.

Starts the product as a user does.  Twenty clients request the routes of
``/api/v1/privacy`` in turn, each one query per second on average, of two kinds:

| clients | queries |
|---|---|
| a class | a few repeated set-ups, as linked in a lesson or a lab |
| strangers | a new set-up each time |

Times are wall times, on the machine that also runs the clients.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlencode

from benchmarks import plans, record

ROOT = Path(__file__).parents[2]
CLIENTS = 20
SECONDS = 45.0
PAUSE = 1.0  # mean seconds between two queries of a client
ROUTES: dict[str, tuple[str, ...]] = {
    "epsilon": ("sample_rate", "noise_multiplier", "steps", "delta"),
    "curve": ("sample_rate", "noise_multiplier", "steps", "delta"),
    "delta": ("sample_rate", "noise_multiplier", "steps", "epsilon"),
    "noise_multiplier": ("sample_rate", "steps", "delta", "target_epsilon"),
    "steps": ("sample_rate", "noise_multiplier", "delta", "target_epsilon"),
    "sample_rate": ("noise_multiplier", "steps", "delta", "target_epsilon"),
    "trade_off": ("sample_rate", "noise_multiplier", "steps"),
}
SET_UPS = 5  # number of set-ups of a class
PATIENCE = 60.0  # timeout in seconds, of the start and of the end
# nginx drops root privileges, and could then not enter the product's folders.
WITHOUT_RIGHTS = ["unshare", "--user", "--map-user=10001"] if os.getuid() == 0 else []

Numbers = dict[str, float]
Draw = Callable[[random.Random], Numbers]


def set_up(generator: random.Random) -> Numbers:
    """Return a random set-up of the kind that people choose."""
    target = generator.uniform(0.5, 8)
    return {
        "sample_rate": 10 ** generator.uniform(-3, -1),
        "noise_multiplier": generator.uniform(0.7, 4),
        "steps": round(10 ** generator.uniform(2, 4)),
        "delta": 1e-5,
        "target_epsilon": target,
        "epsilon": target,
    }


def measure(base: str, draw: Draw) -> dict[str, dict[str, float]]:
    """Return the clients' waiting times in milliseconds, by route and in total."""
    waited: dict[str, list[float]] = {route: [] for route in ROUTES}
    end = time.monotonic() + SECONDS

    def client(number: int) -> None:
        generator = random.Random(number)
        time.sleep(generator.uniform(0, PAUSE))
        while time.monotonic() < end:
            route = generator.choice(list(ROUTES))
            numbers = draw(generator)
            query = urlencode({name: numbers[name] for name in ROUTES[route]})
            start = time.perf_counter()
            with urllib.request.urlopen(f"{base}/{route}?{query}") as answer:
                answer.read()
            waited[route].append(1000 * (time.perf_counter() - start))
            time.sleep(generator.expovariate(1 / PAUSE))

    threads = [threading.Thread(target=client, args=(i,)) for i in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    everything = [wait for times in waited.values() for wait in times]
    return {route: summary(times) for route, times in waited.items()} | {
        "all": summary(everything)
    }


def summary(times: list[float]) -> dict[str, float]:
    """Return the number of times, their median and their 95th percentile."""
    ends = statistics.quantiles(times, n=20)
    return {"asked": len(times), "median_ms": ends[9], "p95_ms": ends[18]}


def main() -> None:
    """Measure, print and write the results."""
    shared = [set_up(random.Random(number)) for number in range(SET_UPS)]
    ways: dict[str, Draw] = {
        "a class": lambda generator: generator.choice(shared),
        "strangers": set_up,
    }
    with served() as address:
        waited = {
            name: measure(f"{address}/api/v1/privacy", draw)
            for name, draw in ways.items()
        }
    measured = {"clients": CLIENTS, "waited": waited, "plans": plans.measured()}
    print(json.dumps(measured, indent=1))
    print(record.write("service", measured))


@contextmanager
def served(*options: str, **environment: str) -> Iterator[str]:
    """Start the product on a temporary folder; yields its address.

    Args:
        options: Options of the command ``serve``.
        environment: Variables of its settings.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    address = f"http://127.0.0.1:{port}"
    without = WITHOUT_RIGHTS if "DPSGD_FRONT" in environment else []
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [*without, sys.executable, "-m", "dpsgd_explorer", "serve", *options],
            cwd=ROOT,
            env=os.environ | {"PORT": port, "DPSGD_INSTANCE_DIR": folder} | environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            until_it_answers(address)
            yield address
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE)


def until_it_answers(address: str) -> None:
    """Wait until a server answers.

    Raises:
        TimeoutError: the server did not answer.
    """
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with suppress(OSError):
            urllib.request.urlopen(f"{address}/healthz").close()
            return
        time.sleep(0.1)
    raise TimeoutError(f"{address} must answer within {PATIENCE} s, and does not.")

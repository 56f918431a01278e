"""Time and memory of training steps: the table of models, and growth along sizes.

``python -m benchmarks.steps CASE SECONDS THREADS FIRST WAY`` times two methods in
alternation, and prints both as JSON.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

import torch

from benchmarks.memory import peak_memory
from benchmarks.models import CASES, GROWING, Case, case_named
from benchmarks.own_process import result_of
from benchmarks.ways import prepared
from dpsgd_explorer.training.timing import time_in_turns

SECONDS = 6.0
"""Time of a way of the table, each of its two sides taking about half."""

PROCESSES = 3
"""Processes per method, one after the other; the median counts."""

LEAST_STEPS = 5
"""Steps of a visit, at least: they follow each other as in a training."""

GROWTH_SECONDS = 1.0
GROWTH_WAYS = ("ordinary", "hooks", "opacus_hooks", "opacus_ghost")

Row = dict[str, Any]


def core(model: str, ways: Sequence[str], seconds: float = SECONDS) -> list[Row]:
    """Return a row per method for one model; ratios are to the first method."""
    case = CASES[model]
    key = {"model": case.name, "batch": case.batch}
    return [key | row for row in _with_memory(case, timed(case, ways, seconds))]


def growth(axis: str) -> list[Row]:
    """Return a row per size along an axis and method."""
    return [
        {"axis": axis, "size": size} | row
        for size, case in GROWING[axis].items()
        for row in _with_memory(case, timed(case, GROWTH_WAYS, GROWTH_SECONDS))
    ]


def timed(
    case: Case, ways: Sequence[str], seconds: float, threads: int = 1
) -> list[Row]:
    """Return a row per method, each timed in alternation with the first one.

    Args:
        case: The model and its batch.
        ways: Keys of WAYS, the methods.
        seconds: Approximate duration per method: CPU time with one thread, wall time
            with several.
        threads: Threads of torch.
    """
    first, *others = ways
    found = {way: _beside(case, first, way, seconds, threads) for way in others}
    base = found.values() or [_beside(case, first, first, seconds, threads)]
    of_first = [timings[first] for timings in base]
    milliseconds = statistics.median(timing["milliseconds"] for timing in of_first)
    rows: list[Row] = [{"way": first, **of_first[0], "milliseconds": milliseconds}]
    for way in others:
        rows.append({"way": way, **found[way][way]})
        print(case.key, f"{way:18}", found[way][way].get("ratio", "–"), flush=True)
    return rows


def _with_memory(case: Case, rows: Iterable[Row]) -> Iterator[Row]:
    """Add the peak memory of each method that was timed."""
    for row in rows:
        timed_way = "ratio" in row
        yield row | (peak_memory(case, row["way"])._asdict() if timed_way else {})


def _beside(
    case: Case, first: str, way: str, seconds: float, threads: int
) -> dict[str, Row]:
    """Returns {way: timing, or the reason for its absence} of two methods.

    The result is the median of PROCESSES processes: in some processes the C library
    returns freed memory to the system at every step, in others it keeps it.
    """
    share = str(seconds / PROCESSES)
    arguments = "benchmarks.steps", case.key, share, str(threads), first, way
    runs: list[dict[str, Row]] = []
    while len(runs) < PROCESSES:
        runs.append(result_of(*arguments))
        if "skipped" in runs[0][way]:
            return runs[0]
    return sorted(runs, key=lambda run: float(run[way]["ratio"]))[PROCESSES // 2]


def main(key: str, seconds: str, threads: str, *ways: str) -> None:
    """Time methods in alternation; print {way: timing, or reason for its absence}."""
    torch.set_num_threads(int(threads))
    clock = time.process_time if threads == "1" else time.perf_counter
    steps, skipped = prepared(case_named(key), dict.fromkeys(ways))
    timings = time_in_turns(steps, float(seconds), clock, LEAST_STEPS)
    found = {way: asdict(timing) for way, timing in timings.items()}
    reasons = {way: {"skipped": reason} for way, reason in skipped.items()}
    print(json.dumps(found | reasons))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Time and memory of steps of published architectures, with physical batches.

For a step of 16 physical batches, three are timed: the first, one of the 14 in between,
and the last, which ends the logical batch; those in between take equal times.  So a
round is short, and ordinary and private steps run under the same conditions.

``python -m benchmarks architectures`` measures all architectures,
``python -m benchmarks.architectures.measure NAME ...`` some of them, and
``python -m benchmarks.architectures.measure one NAME WAY`` prints one row as JSON.
"""

from __future__ import annotations

import gc
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from benchmarks import record
from benchmarks.architectures.cases import ARCHITECTURES, PARTS, Architecture
from benchmarks.architectures.memory import peak_memory
from benchmarks.architectures.ways import WAYS, Part, reason_to_skip
from benchmarks.own_process import result_of
from dpsgd_explorer.training.timing import one_thread

ROUNDS, WALL_ROUNDS, WALL_THREADS = 5, 3, 2
TRAINING_WAYS = tuple(way for way in WAYS if way != "normals")

Row = dict[str, Any]
Clock = Callable[[], float]


def measure(name: str) -> list[Row]:
    """Return a row per method for one architecture, each timed in a new process.

    Ratios are to the ordinary step in the same process.
    """
    module = "benchmarks.architectures.measure"
    return [result_of(module, "one", name, way) for way in TRAINING_WAYS]


def measure_one(name: str, way: str) -> Row:
    """Return the row of one method, timed in alternation with the ordinary step."""
    case, row = ARCHITECTURES[name], {"architecture": name, "way": way}
    parts, skipped = _prepared(case, dict.fromkeys(("ordinary", "normals", way)))
    if way in skipped:
        return row | {"skipped": skipped[way]}
    seconds = _in_turns(parts, ROUNDS, time.process_time)
    ratios = _ratios(seconds)
    with _threads(WALL_THREADS):
        wall = _ratios(_in_turns(parts, WALL_ROUNDS, time.perf_counter))
    low, middle, high = statistics.quantiles(ratios[way], n=4, method="inclusive")
    return row | {
        "trained": sum(p.numel() for p in case.model().parameters() if p.requires_grad),
        "seconds": statistics.median(seconds[way]),
        "ratio": middle,
        "low": low,
        "high": high,
        "floor": 1 + statistics.median(ratios["normals"]),
        "wall_ratio": statistics.median(wall[way]),
        "wall_floor": 1 + statistics.median(wall["normals"]),
        **peak_memory(name, way)._asdict(),
    }


def _prepared(
    case: Architecture, ways: Iterable[str]
) -> tuple[dict[str, Part], dict[str, str]]:
    """Return {way: part}, each run twice, and {way: reason for its absence}."""
    parts: dict[str, Part] = {}
    skipped: dict[str, str] = {}
    for way in ways:
        reason = reason_to_skip(way)
        try:
            if not reason:
                part = WAYS[way][1](case)
                part(False)
                part(True)
                parts[way] = part
        except (RuntimeError, ValueError, NotImplementedError) as error:
            reason = str(error).strip().splitlines()[0]
        if reason:
            skipped[way] = reason
    return parts, skipped


def _in_turns(
    parts: Mapping[str, Part], rounds: int, clock: Clock
) -> dict[str, list[float]]:
    """Return {way: seconds per step}, one value per round without the first."""
    spent: dict[str, list[float]] = {way: [] for way in parts}
    for _ in range(1 + rounds):
        gc.collect()
        for way, part in parts.items():
            first, further = (_seconds(part, False, clock) for _ in range(2))
            last = _seconds(part, True, clock)
            spent[way].append(first + (PARTS - 2) * further + last)
    return {way: seconds[1:] for way, seconds in spent.items()}


def _seconds(part: Part, ends: bool, clock: Clock) -> float:
    start = clock()
    part(ends)
    return clock() - start


def _ratios(spent: Mapping[str, list[float]]) -> dict[str, list[float]]:
    """Return {way: ratios to the ordinary step of the same round}."""
    return {
        way: [own / base for own, base in zip(times, spent["ordinary"], strict=True)]
        for way, times in spent.items()
    }


@contextmanager
def _threads(number: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def main(names: Iterable[str] = ARCHITECTURES) -> None:
    """Measure architectures and write the results of each when it is done."""
    for name in names:
        rows = measure(name)
        for row in rows:
            if "skipped" not in row:
                print(
                    f"{name:10} {row['way']:15} {row['seconds']:7.2f} s "
                    f"x {row['ratio']:.3f} ({row['low']:.2f} to {row['high']:.2f}, "
                    f"floor {row['floor']:.3f}) wall {row['wall_ratio']:.3f} "
                    f"{row['extra_mib']:6.0f} MiB",
                    flush=True,
                )
        print(record.update("architectures", rows, "architecture", "way"))


if __name__ == "__main__":
    one_thread()
    if sys.argv[1:2] == ["one"]:
        print(json.dumps(measure_one(*sys.argv[2:])))
    else:
        main(sys.argv[1:] or ARCHITECTURES)

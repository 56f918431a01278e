"""Time and memory of a step of real architectures, accumulated in physical parts.

``python -m benchmarks architectures`` measures all of them;
``python -m benchmarks.architectures.measure NAME ...`` some.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from benchmarks import record
from benchmarks.architectures.cases import ARCHITECTURES, Architecture
from benchmarks.architectures.memory import peak_memory
from benchmarks.architectures.ways import WAYS, reason_to_skip
from dpsgd_explorer.training.timing import Step, one_thread, time_in_turns

SECONDS = 20.0  # CPU time per architecture; five rounds of a slow one take longer
WALL_ROUNDS = 3
WALL_THREADS = 2
ALLOWED_ABOVE_FLOOR = 0.15
ALLOWED_MEMORY = 1.25
TRAINING_WAYS = tuple(way for way in WAYS if way != "normals")

Row = dict[str, Any]


def measure(name: str, seconds: float = SECONDS) -> list[Row]:
    """Return a row per way of one architecture; ratios are to the ordinary step."""
    case = ARCHITECTURES[name]
    steps, skipped = _prepared(case)
    timings = time_in_turns(steps, seconds)
    wall = _wall_ratios({way: steps[way] for way in ("ordinary", "normals", "hooks")})
    parameters = [p.numel() for p in case.model().parameters() if p.requires_grad]
    rows: list[Row] = []
    for way in TRAINING_WAYS:
        row: Row = {"architecture": name, "way": way}
        if way in skipped:
            rows.append(row | {"skipped": skipped[way]})
            continue
        row |= {
            "trained": sum(parameters),
            "milliseconds": timings[way].milliseconds,
            "ratio": timings[way].ratio,
            "low": timings[way].low,
            "high": timings[way].high,
            **peak_memory(name, way)._asdict(),
        }
        if way in wall:
            row["wall_ratio"] = wall[way]
        if way == "hooks":
            row["floor"] = 1 + timings["normals"].ratio
            row["wall_floor"] = 1 + wall["normals"]
        rows.append(row)
    return rows


def _prepared(case: Architecture) -> tuple[dict[str, Step], dict[str, str]]:
    """Return {way: step}, each run once, and {way: reason for leaving it out}."""
    steps: dict[str, Step] = {}
    skipped: dict[str, str] = {}
    for way, (_, make) in WAYS.items():
        reason = reason_to_skip(case, way)
        try:
            if not reason:
                step = make(case)
                step.run()
                steps[way] = step
        except (RuntimeError, ValueError, NotImplementedError) as error:
            reason = str(error).strip().splitlines()[0]
        if reason:
            skipped[way] = reason
    return steps, skipped


def _wall_ratios(steps: Mapping[str, Step]) -> dict[str, float]:
    """Return {way: wall clock over the first way's}, medians of rounds of two threads.

    The first step of a way with these threads is not counted.
    """
    first = next(iter(steps))
    taken: dict[str, list[float]] = {way: [] for way in steps}
    with _threads(WALL_THREADS):
        for step in steps.values():
            step.run()
        for _ in range(WALL_ROUNDS):
            for way, step in steps.items():
                start = time.perf_counter()
                step.run()
                taken[way].append(time.perf_counter() - start)
    return {
        way: statistics.median(
            own / ordinary for own, ordinary in zip(times, taken[first], strict=True)
        )
        for way, times in taken.items()
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
    """Measure architectures one by one, and write the results of each."""
    for name in names:
        rows = measure(name)
        for row in rows:
            if "skipped" not in row:
                print(
                    f"{name:10} {row['way']:14} {row['milliseconds']:8.0f} ms "
                    f"x {row['ratio']:.3f} wall {row.get('wall_ratio', 0.0):.3f} "
                    f"{row['extra_mib']:6.0f} MiB, floor {row.get('floor', 1.0):.3f}",
                    flush=True,
                )
        print(record.update("architectures", rows, "architecture", "way"))


if __name__ == "__main__":
    one_thread()
    main(sys.argv[1:] or ARCHITECTURES)

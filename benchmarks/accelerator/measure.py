"""``python -m benchmarks accelerator``: steps and noise on the available accelerator.

Ordinary and private steps alternate.  The device's own clock measures from before the
first part of a step until its last operation has ended.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from benchmarks import record
from benchmarks.accelerator.cases import (
    DEVICE,
    LENGTH,
    MODELS,
    PARTS,
    SAMPLES,
    Step,
    step_of,
)
from dpsgd_explorer.dp.noise.secure import SecureNoise
from tools.marked_text import record_table

ROUNDS, WARM_UP = 12, 3
NUMBERS = 2**27
"""Noise values per draw, about the number of GPT-2's parameters."""

WAYS = ("ordinary", "hooks")

Row = dict[str, Any]


def main() -> None:
    """Measure and write the results."""
    if not torch.cuda.is_available():
        print("There is no accelerator here; the results there are stay.")
        return
    rows = [row for name in MODELS for row in _rows(name)]
    document = {
        "device": torch.cuda.get_device_name(),
        "samples": SAMPLES,
        "length": LENGTH,
        "noise": _noise(),
        "rows": rows,
    }
    print(record.write("accelerator", document))


def _rows(name: str) -> list[Row]:
    """Return a row for each number of parts per step."""
    steps = {way: step_of(name, way) for way in WAYS}
    rows = []
    for parts in (1, PARTS):
        spent = _in_turns(steps, parts)
        pairs = zip(spent["hooks"], spent["ordinary"], strict=True)
        ratios = [private / ordinary for private, ordinary in pairs]
        low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
        row = {
            "model": name,
            "parts": parts,
            **{f"{way}_ms": statistics.median(spent[way]) for way in WAYS},
            "ratio": middle,
            "low": low,
            "high": high,
            **{f"{way}_gib": _peak(steps[way], parts) for way in WAYS},
            "asked_ms": 1e3 * _asked(steps["hooks"], parts),
            "waits": _waits(steps["hooks"], parts),
        }
        print(row, flush=True)
        rows.append(row)
    return rows


def _in_turns(steps: dict[str, Step], parts: int) -> dict[str, list[float]]:
    """Return {way: milliseconds of each round's step}, without the first rounds."""
    spent: dict[str, list[float]] = {way: [] for way in steps}
    for _ in range(WARM_UP + ROUNDS):
        for way, step in steps.items():
            spent[way].append(_milliseconds(partial(step, parts)))
    return {way: times[WARM_UP:] for way, times in spent.items()}


def _milliseconds(run: Callable[[], object]) -> float:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    begin.record()
    run()
    end.record()
    torch.cuda.synchronize()
    return float(begin.elapsed_time(end))


def _peak(step: Step, parts: int) -> float:
    """Returns the peak memory of a step in GiB, above the memory before it."""
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    step(parts)
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 2**30


def _asked(step: Step, parts: int) -> float:
    """Returns the seconds until Python has queued the whole step."""
    torch.cuda.synchronize()
    begin = time.perf_counter()
    step(parts)
    seconds = time.perf_counter() - begin
    torch.cuda.synchronize()
    return seconds


def _waits(step: Step, parts: int) -> int:
    """Return how often a step waits for the device, as reported by torch."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            step(parts)
        finally:
            torch.cuda.set_sync_debug_mode("default")
    return sum("called a synchronizing" in str(warning.message) for warning in seen)


def _noise() -> dict[str, float]:
    """Return nanoseconds per number of secure noise and of torch's normal numbers."""
    total, numbers = (torch.zeros(NUMBERS, device=DEVICE) for _ in range(2))
    noise = SecureNoise()
    runs: dict[str, Callable[[], object]] = {
        "secure": lambda: noise.add_to(total, 1.0),
        "normal": numbers.normal_,
        "normal_added": lambda: total.add_(numbers.normal_()),
    }
    spent = {
        name: statistics.median(_milliseconds(run) for _ in range(ROUNDS))
        for name, run in runs.items()
    }
    return {name: 1e6 * own / NUMBERS for name, own in spent.items()}


def table(results: dict[str, Any]) -> str:
    """Returns the results as the docs show them."""
    samples, length = results["samples"], results["length"]
    steps = record_table(
        results["rows"],
        ("model", lambda row: MODELS[row["model"]].label),
        ("parts a step", "{parts}"),
        ("ordinary, ms", "{ordinary_ms:.0f}"),
        ("private", "**{ratio:.3f}**"),
        ("quartiles", "{low:.3f} to {high:.3f}"),
        ("GiB beside the model, ordinary", "{ordinary_gib:.1f}"),
        ("private", "{hooks_gib:.1f}"),
        ("asked for after, ms", "{asked_ms:.0f}"),
        ("waits", "{waits}"),
    )
    noise = {name: 1e3 * value for name, value in results["noise"].items()}
    return "\n\n".join(
        [
            f"{results['device']}; {record.described(results)} Parts of {samples} "
            f"texts of {length:,} ids, bfloat16 by autocast, fused AdamW.",
            steps,
            f"A number of secure noise, drawn, added and rounded, takes "
            f"{noise['secure']:.1f} ps; one of torch's {noise['normal']:.1f} ps, and "
            f"{noise['normal_added']:.1f} ps where it is added.",
        ]
    )


if __name__ == "__main__":
    main()

"""CPU time and peak memory of a step.

Ways are timed in turns with the ordinary step, so that what slows the machine down
slows down both; each figure is a median of ratios to the ordinary step of its round.
"""

from __future__ import annotations

import gc
import math
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch

from benchmarks.models import Case
from benchmarks.ways import STORES_GRADIENTS, WAYS, Step, missing

VISIT_SECONDS = 0.05
"""CPU time of one visit to the ordinary step; the others make as many steps."""

PATIENCE_SECONDS = 0.5
"""CPU time beyond which a way is not stepped again within one visit."""

STATUS = Path("/proc/self/status")


@dataclass(frozen=True)
class Timing:
    """What a step takes.

    Attributes:
        milliseconds: CPU time, one thread, median over the rounds.
        ratio: To the ordinary step of the same round, median.
        low, high: Quartiles of that ratio.
    """

    milliseconds: float
    ratio: float
    low: float
    high: float


def time_in_turns(steps: Mapping[str, Step], seconds: float) -> dict[str, Timing]:
    """Return {way: timing}; the first way is the measure of the others.

    Args:
        steps: What to time.
        seconds: CPU time to spend, roughly.
    """
    first = next(iter(steps))
    count = max(1, round(VISIT_SECONDS / _visit(steps[first], 3)))
    seen: dict[str, list[float]] = {way: [] for way in steps}
    end = time.process_time() + seconds
    rounds = 0
    while rounds < 5 or time.process_time() < end:
        for way, step in steps.items():
            seen[way].append(_visit(step, count))
        rounds += 1
    return {way: _timing(seen[way], seen[first]) for way in steps}


def _visit(step: Step, count: int) -> float:
    """Return the CPU seconds of a step, over ``count`` of them or patience's end."""
    gc.collect()
    with step.during():
        start, done, taken = time.process_time(), 0, 0.0
        while done < count and taken < PATIENCE_SECONDS:
            step.run()
            done += 1
            taken = time.process_time() - start
    return taken / done


def _timing(own: list[float], reference: list[float]) -> Timing:
    ratios = [a / b for a, b in zip(own, reference, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return Timing(statistics.median(own) * 1e3, middle, low, high)


class Memory(NamedTuple):
    """MiB beyond what was held before the first step.

    Attributes:
        steps: The most while three steps are made, after the first.
        first: The most in the first, in which an engine may also check the model.
    """

    steps: float
    first: float


def peak_memory(case: Case, way: str) -> Memory:
    """Return what steps take, measured in a process of its own.

    NaN where the system does not tell.
    """
    sizes = [str(case.batch), *map(str, case.sizes)]
    command = [sys.executable, "-m", "benchmarks.memory", case.name, way, *sizes]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return Memory(*map(float, done.stdout.split()))


def resident_mib(field: str = "VmRSS") -> float:
    """Return this process's resident memory, or its high-water mark (VmHWM)."""
    if not STATUS.exists():
        return math.nan
    found = re.search(rf"{field}:\s+(\d+) kB", STATUS.read_text(encoding="ascii"))
    return int(found[1]) / 1024 if found else math.nan


def forget_high_water() -> None:
    """Set the high-water mark back to what is held now, where that is allowed."""
    reset = Path("/proc/self/clear_refs")
    if reset.exists():
        reset.write_text("5", encoding="ascii")


def reason_to_skip(case: Case, way: str) -> str:
    """Return why a way is left out for a case, "" if it is not."""
    if way in STORES_GRADIENTS:
        entries = sum(p.numel() for p in case.model().parameters())
        needed = 2 * 4 * case.batch * entries / 2**30
        if needed > available_gib() / 2:
            return f"per-sample gradients take about {needed:.0f} GiB"
    return missing(way)


def available_gib() -> float:
    """Return the memory that is free now."""
    text = Path("/proc/meminfo").read_text(encoding="ascii")
    found = re.search(r"MemAvailable:\s+(\d+) kB", text)
    return int(found[1]) / 2**20 if found else math.inf


def prepared(case: Case, ways: list[str]) -> tuple[dict[str, Step], dict[str, str]]:
    """Return {way: step} and {way: why not}."""
    steps: dict[str, Step] = {}
    skipped: dict[str, str] = {}
    for way in ways:
        reason = reason_to_skip(case, way)
        if not reason:
            try:
                steps[way] = WAYS[way][1](case)
                _visit(steps[way], 1)
            except (RuntimeError, ValueError) as error:
                reason = str(error).strip().splitlines()[0]
                steps.pop(way, None)
        if reason:
            skipped[way] = reason
    return steps, skipped


def one_thread() -> None:
    """Compute with one thread from now on."""
    torch.set_num_threads(1)

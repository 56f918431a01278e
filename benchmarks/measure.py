"""Peak memory of a step as the system sees it, and which ways can be measured."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from benchmarks.models import Case
from benchmarks.ways import STORES_GRADIENTS, WAYS, missing
from dpsgd_explorer.training.timing import Step, visit

STATUS = Path("/proc/self/status")


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
                visit(steps[way], 1)
            except (RuntimeError, ValueError) as error:
                reason = str(error).strip().splitlines()[0]
                steps.pop(way, None)
        if reason:
            skipped[way] = reason
    return steps, skipped

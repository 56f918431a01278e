"""Peak memory of a step, measured by the operating system in a new process.

``python -m benchmarks.memory CASE WAY`` prints the fields of ``Memory``.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.models import Case, case_named
from benchmarks.own_process import output_of, resident_mib
from benchmarks.ways import step_of
from dpsgd_explorer.dp.backends.heap import HEAP
from dpsgd_explorer.training.timing import Step, one_thread

RESET = Path("/proc/self/clear_refs")
STEPS = 3


class Memory(NamedTuple):
    """Peak memory in MiB, above the memory before the first step.

    Attributes:
        extra_mib: Peak over ``STEPS`` steps after the first one.
        first_mib: Peak of the first step, when an engine may check the model.
        first_steps: CPU time of the first step, relative to later steps.
    """

    extra_mib: float
    first_mib: float
    first_steps: float


def peak_memory(case: Case, way: str) -> Memory:
    """Return the peak memory of a case's steps; NaN without figures in /proc.

    Raises:
        RuntimeError: the steps failed.
    """
    return measured_by("benchmarks.memory", case.key, way)


def measured_by(module: str, *arguments: str) -> Memory:
    """Return the peaks that ``python -m module arguments`` prints.

    Raises:
        RuntimeError: it failed.
    """
    return Memory(*map(float, output_of(module, *arguments).split()))


def main(key: str, way: str) -> None:
    """Run a few steps and print the peaks and the time of the first step."""
    one_thread()
    print(*peaks_of(step_of(way, case_named(key))))


def peaks_of(step: Step) -> Memory:
    """Return the peak memory of this process in the first steps of a model."""
    before = resident_mib("VmRSS")
    _reset_peak()
    with step.during():
        first_seconds = _cpu_seconds(step)
        first = resident_mib("VmHWM") - before
        HEAP.trim()
        _reset_peak()
        seconds = statistics.median(_cpu_seconds(step) for _ in range(STEPS))
    later = resident_mib("VmHWM") - before
    return Memory(later, first, first_seconds / seconds)


def _cpu_seconds(step: Step) -> float:
    start = time.process_time()
    step.run()
    return time.process_time() - start


def high_water() -> float:
    """Return the peak of this process's resident memory in MiB."""
    return resident_mib("VmHWM")


def reset_high_water() -> float:
    """Reset the peak to the memory in use, after trimming freed memory; return it."""
    HEAP.trim()
    _reset_peak()
    return resident_mib("VmRSS")


def _reset_peak() -> None:
    """Reset the peak to the current value, if the system allows it."""
    if RESET.exists():
        RESET.write_text("5", encoding="ascii")


if __name__ == "__main__":
    main(*sys.argv[1:])

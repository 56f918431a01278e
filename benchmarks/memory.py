"""Prints the peak memory of a way, in MiB, measured in this process alone.

Two figures: that of the steps once the first is done, and that of the first, in which
an engine may also check the model.  Both are over what was held before the first.
"""

from __future__ import annotations

import ctypes
import sys

from benchmarks.growth import case_of
from benchmarks.measure import forget_high_water, resident_mib
from benchmarks.ways import WAYS
from dpsgd_explorer.training.timing import one_thread

STEPS = 3


def main(name: str, way: str, *sizes: str) -> None:
    """Make a few steps and print how far memory rose."""
    one_thread()
    step = WAYS[way][1](case_of(name, *map(int, sizes)))
    before = resident_mib()
    forget_high_water()
    with step.during():
        step.run()
        first = resident_mib("VmHWM") - before
        hand_back()
        forget_high_water()
        for _ in range(STEPS):
            step.run()
    print(resident_mib("VmHWM") - before, first)


def hand_back() -> None:
    """Give freed memory back to the system, where the C library can."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


if __name__ == "__main__":
    main(*sys.argv[1:])

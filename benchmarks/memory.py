"""Prints the peak memory of a way, in MiB, measured in this process alone."""

from __future__ import annotations

import sys

from benchmarks.growth import case_of
from benchmarks.measure import forget_high_water, one_thread, resident_mib
from benchmarks.ways import WAYS

STEPS = 3


def main(name: str, way: str, *sizes: str) -> None:
    """Make a few steps and print how far memory rose."""
    one_thread()
    step = WAYS[way][1](case_of(name, *map(int, sizes)))
    before = resident_mib()
    forget_high_water()
    with step.during():
        for _ in range(STEPS):
            step.run()
    print(resident_mib("VmHWM") - before)


if __name__ == "__main__":
    main(*sys.argv[1:])

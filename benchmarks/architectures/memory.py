"""Peak memory of an architecture's steps, in a new process.

``python -m benchmarks.architectures.memory NAME WAY`` prints it in MiB, like
``benchmarks.memory``.  Two physical batches need as much memory as sixteen.
"""

from __future__ import annotations

import sys

from benchmarks.architectures.cases import ARCHITECTURES
from benchmarks.architectures.ways import WAYS
from benchmarks.memory import Memory, measured_by, peaks_of
from dpsgd_explorer.training.timing import Step, one_thread


def peak_memory(name: str, way: str) -> Memory:
    """Returns the peak memory of an architecture's steps, above its model's memory.

    Raises:
        RuntimeError: the steps failed.
    """
    return measured_by("benchmarks.architectures.memory", name, way)


def main(name: str, way: str) -> None:
    """Run a few steps and print both peaks."""
    one_thread()
    part = WAYS[way][1](ARCHITECTURES[name])

    def step() -> None:
        part(False)
        part(True)

    print(*peaks_of(Step(step)))


if __name__ == "__main__":
    main(*sys.argv[1:])

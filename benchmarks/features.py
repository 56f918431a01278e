"""CPU time of the scattering features of a picture.

The transform alternates with itself under ``torch.set_flush_denormal``: if its
constants or its results were subnormal, the flush would make it faster.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from benchmarks import record
from dpsgd_explorer.training.datasets.registry import load
from dpsgd_explorer.training.datasets.scattering import Scattering
from dpsgd_explorer.training.timing import Step, time_in_turns

PICTURES = 640  # pictures per call
SECONDS = 10.0


def measure() -> dict[str, float]:
    """Return CPU milliseconds per picture, with and without the flush, and the ratio.

    The ratio is to the flushed transform of the same round, median over the rounds.
    """
    pictures = load("mnist")[1].inputs[:PICTURES]
    transform = Scattering(pictures.shape[-1])

    def run() -> None:
        transform(pictures)

    run()
    steps = {"flushed": Step(run, during=_subnormals_flushed), "plain": Step(run)}
    timings = time_in_turns(steps, SECONDS)
    return {
        "milliseconds": round(timings["plain"].milliseconds / PICTURES, 4),
        "milliseconds_flushed": round(timings["flushed"].milliseconds / PICTURES, 4),
        "ratio": round(timings["plain"].ratio, 3),
    }


@contextmanager
def _subnormals_flushed() -> Iterator[None]:
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def main() -> None:
    """Measure, print, and write the results."""
    measured = measure()
    print(
        f"scattering features: {measured['milliseconds']:.3f} ms per picture, "
        f"{measured['ratio']:.2f} of the time with subnormal numbers flushed to 0"
    )
    print(record.write("features", measured))

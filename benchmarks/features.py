"""What the features of the default run cost: CPU time, one thread.

    python -m benchmarks features

The transform takes turns with itself under ``torch.set_flush_denormal``: where its
constants or what they give were subnormal, the flush would make it quicker.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from dpsgd_explorer.training.datasets.registry import load
from dpsgd_explorer.training.datasets.scattering import Scattering
from dpsgd_explorer.training.timing import machine

RESULTS = Path(__file__).parent / "results" / "features.json"
PICTURES = 640  # transformed at a time
ROUNDS = 9


def measure() -> dict[str, float]:
    """Return CPU milliseconds per picture, with and without the flush, and the ratio.

    Medians over the rounds; the ratio's is over the ratio of each round.
    """
    pictures = load("mnist")[1].inputs[:PICTURES]
    transform = Scattering(pictures.shape[-1])
    transform(pictures)
    plain, flushed = [], []
    for _ in range(ROUNDS):
        plain.append(_milliseconds(transform, pictures))
        torch.set_flush_denormal(True)
        flushed.append(_milliseconds(transform, pictures))
        torch.set_flush_denormal(False)
    ratios = [a / b for a, b in zip(plain, flushed, strict=True)]
    return {
        "milliseconds": round(statistics.median(plain), 4),
        "milliseconds_flushed": round(statistics.median(flushed), 4),
        "ratio": round(statistics.median(ratios), 3),
    }


def _milliseconds(transform: Callable[[Tensor], Tensor], pictures: Tensor) -> float:
    start = time.process_time_ns()
    transform(pictures)
    return (time.process_time_ns() - start) / 1e6 / len(pictures)


def main() -> None:
    """Measure, print, and write the results."""
    found = {"machine": machine(), "torch": torch.__version__, **measure()}
    RESULTS.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(
        f"scattering features: {found['milliseconds']:.3f} ms per picture, "
        f"{found['ratio']:.2f} of the time with subnormal numbers flushed to 0"
    )

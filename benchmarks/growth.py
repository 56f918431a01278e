"""How time and memory grow with the batch, the width and the length of sequences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from benchmarks.measure import peak_memory, prepared
from benchmarks.models import CASES, Case
from dpsgd_explorer.training.models import TransformerClassifier, perceptron
from dpsgd_explorer.training.timing import time_in_turns

WAYS = ["ordinary", "hooks", "opacus_hooks", "opacus_ghost"]
SECONDS = 2.0

BATCHES = (16, 64, 256, 1024, 4096)
WIDTHS = (64, 256, 1024, 4096)
LENGTHS = (16, 64, 256, 1024)


def batch_case(batch: int) -> Case:
    """Return the small perceptron at a batch size."""
    return replace(CASES["mlp"], name="batch", batch=batch)


def width_case(batch: int, width: int) -> Case:
    """Return a perceptron with one hidden layer of a width."""
    make = partial(perceptron, 784, width, width, 10)
    return Case("width", make, (784,), False, 10, batch, (width,))


def length_case(batch: int, length: int) -> Case:
    """Return the transformer on sequences of a length."""
    return Case("length", TransformerClassifier, (length,), True, 2, batch, (length,))


GROWING: dict[str, Callable[..., Case]] = {
    "batch": batch_case,
    "width": width_case,
    "length": length_case,
}


def case_of(name: str, batch: int, *sizes: int) -> Case:
    """Return the case that a name and sizes stand for, of the table or growing."""
    return GROWING[name](batch, *sizes) if name in GROWING else CASES[name]


def sweep(axis: str) -> list[dict[str, Any]]:
    """Return a row for each size along an axis, and way."""
    cases = {
        "batch": [(n, batch_case(n)) for n in BATCHES],
        "width": [(n, width_case(64, n)) for n in WIDTHS],
        "length": [(n, length_case(8, n)) for n in LENGTHS],
    }
    return [row for size, case in cases[axis] for row in _rows(axis, size, case)]


def _rows(axis: str, size: int, case: Case) -> list[dict[str, Any]]:
    steps, skipped = prepared(case, WAYS)
    timings = time_in_turns(steps, SECONDS)
    print(f"{axis} {size}: {', '.join(timings)}", flush=True)
    rows = [
        {
            "axis": axis,
            "size": size,
            "way": way,
            "milliseconds": timing.milliseconds,
            "ratio": timing.ratio,
            "extra_mib": peak_memory(case, way).steps,
        }
        for way, timing in timings.items()
    ]
    left_out = [
        {"axis": axis, "size": size, "way": w, "skipped": r} for w, r in skipped.items()
    ]
    return rows + left_out

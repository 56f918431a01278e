"""The table of models and ways: time against the ordinary step, and memory."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from benchmarks.measure import peak_memory, prepared
from benchmarks.models import CASES
from dpsgd_explorer.training.timing import time_in_turns

SECONDS = 20.0
"""CPU time for each model, over all ways."""


def measure(
    model: str, ways: list[str], seconds: float = SECONDS
) -> list[dict[str, Any]]:
    """Return a row for each way of one model; the first is the measure."""
    case = CASES[model]
    steps, skipped = prepared(case, ways)
    timings = time_in_turns(steps, seconds)
    rows = []
    for way in ways:
        row: dict[str, Any] = {"model": case.name, "batch": case.batch, "way": way}
        if way in timings:
            memory = peak_memory(case, way)
            row |= asdict(timings[way])
            row |= {"extra_mib": memory.steps, "first_mib": memory.first}
            print(f"{case.name:12} {way:18} {timings[way].ratio:8.3f}", flush=True)
        else:
            row["skipped"] = skipped[way]
        rows.append(row)
    return rows

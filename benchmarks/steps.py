"""Time and memory of training steps: the table of models, and growth along sizes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from benchmarks.memory import peak_memory
from benchmarks.models import CASES, GROWING, Case
from benchmarks.ways import prepared
from dpsgd_explorer.training.timing import time_in_turns

SECONDS = 20.0
"""CPU time per model of the table, over all ways."""

GROWTH_SECONDS = 2.0
GROWTH_WAYS = ("ordinary", "hooks", "opacus_hooks", "opacus_ghost")

Row = dict[str, Any]


def core(model: str, ways: Iterable[str], seconds: float = SECONDS) -> list[Row]:
    """Return a row per way of one model; ratios are to the first way."""
    case = CASES[model]
    return _rows(case, ways, seconds, {"model": case.name, "batch": case.batch})


def growth(axis: str) -> list[Row]:
    """Return a row per size along an axis and way."""
    return [
        row
        for size, case in GROWING[axis].items()
        for row in _rows(
            case, GROWTH_WAYS, GROWTH_SECONDS, {"axis": axis, "size": size}
        )
    ]


def _rows(case: Case, ways: Iterable[str], seconds: float, key: Row) -> list[Row]:
    steps, skipped = prepared(case, ways)
    timings = time_in_turns(steps, seconds)
    rows = []
    for way in ways:
        row = key | {"way": way}
        if way in timings:
            row |= asdict(timings[way]) | peak_memory(case, way)._asdict()
            print(*key.values(), f"{way:18} {timings[way].ratio:8.3f}", flush=True)
        else:
            row["skipped"] = skipped[way]
        rows.append(row)
    return rows

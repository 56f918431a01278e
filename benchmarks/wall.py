"""Wall time of a step on two threads, as on a visitor's machine."""

from __future__ import annotations

from typing import Any

from benchmarks import record
from benchmarks.models import CASES
from benchmarks.steps import timed
from benchmarks.ways import WAYS as EVERY_WAY
from dpsgd_explorer.training.cpu.threads import threads
from tools.marked_text import markdown_table

THREADS = 2
SECONDS = 6.0
"""Wall clock per way, its two sides taking about half each."""

WAYS = ("ordinary", "ordinary_noise", "hooks", "opacus_ghost")
ALLOWED = {
    "logreg": 1.50,
    "mlp": 1.50,
    "wide_mlp": 1.20,
    "cnn": 1.20,
    "cnn_cifar": 1.20,
    "lstm": 1.35,
    "transformer": 1.20,
}
"""Ratio that a private step may have to the ordinary one, per model."""


def measure(model: str) -> list[dict[str, Any]]:
    """Return a row per method for one model; ratios are to the ordinary step."""
    rows = timed(CASES[model], WAYS, SECONDS, THREADS)
    return [{"model": model} | row for row in rows]


def table(results: dict[str, Any]) -> str:
    """Return the table of docs/explanation/performance.md."""
    rows = {(row["model"], row["way"]): row for row in results["rows"]}
    models = [name for name in CASES if (name, "ordinary") in rows]
    lines = []
    for way in WAYS:
        cells = [_cell(rows.get((model, way), {})) for model in models]
        lines.append([EVERY_WAY[way][0], *cells])
        if way == "hooks":
            bars = [f"{ALLOWED[model]:.2f}" for model in models]
            lines.append(["*to be at most*", *bars])
    return f"{record.described(results)}\n\n{markdown_table(['step', *models], lines)}"


def _cell(row: dict[str, Any]) -> str:
    if "ratio" not in row:
        return "–"
    if row["way"] == "ordinary":
        return f"{row['milliseconds']:.3g} ms"
    return f"**{row['ratio']:.2f}**"


def main() -> None:
    """Measure, print, and write the results of each model."""
    with threads(THREADS):
        for model in CASES:
            rows = measure(model)
            print(record.update("wall", rows, "model", "way"))

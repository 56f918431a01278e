"""Measure the engines in alternation, for docs/reference/engines.md and the lab.

Run as ``python -m tools.compare_engines``; then ``tools.write_engines_page`` writes the
table into the page.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch

from benchmarks.models import CASES
from dpsgd_explorer.dp.config import ENGINES
from dpsgd_explorer.dp.engines.norm_choice import CLIPPING_MODES, DEFAULT_MODE
from dpsgd_explorer.training.timing import (
    machine,
    one_thread,
    ordinary_step,
    private_step,
    relative_costs,
)
from dpsgd_explorer.web.content.engines import COSTS, ORDINARY, with_mode
from dpsgd_explorer.web.recorded.files import FOLDER

#: Models of ``benchmarks core`` at equal batch sizes, so both tables are comparable.
MODELS = ("mlp", "cnn", "transformer")
SECONDS = 6.0  # CPU time per model
DIGITS = 3
FILE: Path = FOLDER / f"{COSTS}.json"
WAYS = {name: (name, DEFAULT_MODE) for name in ENGINES} | {
    with_mode("hooks", mode): ("hooks", mode) for mode in CLIPPING_MODES
}


def main() -> None:
    """Measure the engines and write the file."""
    one_thread()
    computer = machine()
    stored = {
        "batches": {model: CASES[model].batch for model in MODELS},
        "parameters": {model: _parameters(model) for model in MODELS},
        "machine": f"{computer['processor']} ({computer['instructions']})",
        "torch": torch.__version__,
        "costs": {model: _costs(model) for model in MODELS},
    }
    FILE.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


def _parameters(name: str) -> int:
    return sum(p.numel() for p in CASES[name].model().parameters())


def _costs(name: str) -> dict[str, list[float]]:
    """Return {engine: [time, memory]} of a model, as ratios to the ordinary step."""
    case = CASES[name]
    data = case.data()
    steps = {ORDINARY: ordinary_step(case.model(), data)} | {
        way: private_step(case.model(), data, engine, mode)[1]
        for way, (engine, mode) in WAYS.items()
    }
    costs = relative_costs(steps, SECONDS)
    print(name, costs, flush=True)
    return {way: [round(x, DIGITS) for x in pair] for way, pair in costs.items()}


if __name__ == "__main__":
    main()

"""Measure the engines in turns and put the table into docs/engines.md.

Run as ``python -m tools.compare_engines``.
"""

from __future__ import annotations

import torch

from benchmarks.models import CASES
from dpsgd_explorer.dp.clipping.clipper import CLIPPING_FUNCTIONS
from dpsgd_explorer.dp.clipping.groups import CLIPPING_STYLES
from dpsgd_explorer.dp.options import ENGINES
from dpsgd_explorer.training.timing import (
    machine,
    one_thread,
    ordinary_step,
    private_step,
    relative_costs,
)
from tools.marked_text import put
from tools.write_engines_page import PAGE

MODELS = ("mlp", "cnn", "transformer")
BATCH = 64
SECONDS = 4.0  # CPU time per model


def main() -> None:
    """Measure, and write the table."""
    one_thread()
    costs = {model: _costs(model) for model in MODELS}
    computer = machine()
    lines = [
        f"Batches of {BATCH}, secure noise, against torch's ordinary step; "
        f"{computer['processor']} ({computer['instructions']}), "
        f"torch {torch.__version__}.",
        "",
        f"| | {' | '.join(ENGINES)} |",
        f"|---|{'---|' * len(ENGINES)}",
    ]
    for i, figure in enumerate(("time", "memory")):
        for model in MODELS:
            cells = [f"{costs[model][engine][i]:.2f}" for engine in ENGINES]
            lines.append(_row(f"{figure}, {model}", cells))
    styles, functions = ", ".join(CLIPPING_STYLES), ", ".join(CLIPPING_FUNCTIONS)
    lines.append(_row("clipping styles", [f"{styles}, lists"] * len(ENGINES)))
    lines.append(_row("clipping functions", [functions] * len(ENGINES)))
    hooked = [not engine.releases_in_backward for engine in ENGINES.values()]
    lines.append(_row("optimizer", ["hooked" if x else "untouched" for x in hooked]))
    gradients = [
        "`param.private_grad`, `param.grad` at `step()`" if x else "`param.grad`"
        for x in hooked
    ]
    lines.append(_row("noisy gradient in", gradients))
    put(PAGE, "engines", "\n".join(lines))


def _row(name: str, cells: list[str]) -> str:
    return f"| {name} | {' | '.join(cells)} |"


def _costs(name: str) -> dict[str, tuple[float, float]]:
    """Return {engine: (time, memory)} of a model, as ratios to the ordinary step."""
    case = CASES[name]
    x, y = (tensor[:BATCH] for tensor in case.data())
    steps = {"ordinary": ordinary_step(case.model(), (x, y))} | {
        engine: private_step(case.model(), (x, y), engine)[1] for engine in ENGINES
    }
    costs = relative_costs(steps, SECONDS)
    print(name, costs, flush=True)
    return costs


if __name__ == "__main__":
    main()

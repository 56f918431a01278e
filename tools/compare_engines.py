"""Measure the engines beside each other and put the table into docs/engines.md.

Run as ``python -m tools.compare_engines``.
"""

from __future__ import annotations

import torch

from benchmarks.models import CASES, Case
from dpsgd_explorer.dp.clipping.clipper import CLIPPING_FUNCTIONS
from dpsgd_explorer.dp.clipping.groups import CLIPPING_STYLES
from dpsgd_explorer.dp.options import ENGINES
from dpsgd_explorer.errors import UnsupportedModuleError
from dpsgd_explorer.training.timing import (
    Step,
    machine,
    one_thread,
    ordinary_step,
    peak_bytes,
    private_step,
    time_in_turns,
)
from tools.write_engines_page import put

MODELS = ("mlp", "cnn", "transformer")
BATCH = 64
SECONDS = 4.0  # CPU time for each model


def main() -> None:
    """Measure, and write the table."""
    one_thread()
    times, peaks = zip(*(_measured(name) for name in MODELS), strict=True)
    made = machine()
    lines = [
        f"Batches of {BATCH}, secure noise, against torch's ordinary step; "
        f"{made['processor']} ({made['instructions']}), torch {torch.__version__}.",
        "",
        f"| | {' | '.join(ENGINES)} |",
        f"|---|{'---|' * len(ENGINES)}",
    ]
    for model, own in zip(MODELS, times, strict=True):
        lines.append(_row(f"time, {model}", [own.get(e, "refused") for e in ENGINES]))
    for model, own in zip(MODELS, peaks, strict=True):
        lines.append(_row(f"memory, {model}", [own.get(e, "refused") for e in ENGINES]))
    every = ", ".join(CLIPPING_STYLES)
    lines.append(_row("clipping styles", [f"{every}, lists"] * len(ENGINES)))
    lines.append(
        _row("clipping functions", [", ".join(CLIPPING_FUNCTIONS)] * len(ENGINES))
    )
    late = [not each.releases_in_backward for each in ENGINES.values()]
    lines.append(_row("optimizer", ["hooked" if x else "untouched" for x in late]))
    held = [
        "`param.private_grad`, `param.grad` at `step()`" if x else "`param.grad`"
        for x in late
    ]
    lines.append(_row("noisy gradient in", held))
    put("engines", "\n".join(lines))


def _row(name: str, cells: list[str]) -> str:
    return f"| {name} | {' | '.join(cells)} |"


def _measured(name: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return {engine: time} and {engine: memory} of a model, over the ordinary step."""
    case, steps, peaks = CASES[name], {}, {}
    for engine in ("ordinary", *ENGINES):
        step = _step(case, engine)
        try:
            peaks[engine] = peak_bytes(step.run)
        except UnsupportedModuleError:
            continue
        steps[engine] = step
    timings = time_in_turns(steps, SECONDS)
    print(name, {engine: each.ratio for engine, each in timings.items()}, flush=True)
    return (
        {engine: f"{each.ratio:.2f}" for engine, each in timings.items()},
        {engine: f"{peak / peaks['ordinary']:.2f}" for engine, peak in peaks.items()},
    )


def _step(case: Case, engine: str) -> Step:
    """Return one step of a model under an engine, or under none."""
    torch.manual_seed(0)
    x, y = case.data()
    model, data = case.model(), (x[:BATCH], y[:BATCH])
    if engine in ENGINES:
        return private_step(model, data, engine)[1]
    return ordinary_step(model, data)


if __name__ == "__main__":
    main()

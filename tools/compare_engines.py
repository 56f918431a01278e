"""Measure the engines beside each other and put the table into docs/engines.md.

Run as ``python -m tools.compare_engines``.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks import record
from benchmarks.measure import one_thread, time_in_turns
from benchmarks.models import CASES, Case
from benchmarks.ways import Step
from dpsgd_explorer.dp import PrivacyEngine
from dpsgd_explorer.dp.blocks import CLIPPING_STYLES
from dpsgd_explorer.dp.clipping import CLIPPING_FUNCTIONS
from dpsgd_explorer.dp.options import ENGINES
from dpsgd_explorer.errors import UnsupportedModuleError
from tools.write_engines_page import peak_bytes, put

MODELS = ("mlp", "cnn", "transformer")
BATCH = 64
SECONDS = 4.0  # CPU time for each model


def main() -> None:
    """Measure, and write the table."""
    one_thread()
    times, peaks = zip(*(_measured(name) for name in MODELS), strict=True)
    made = record.machine()
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
            peaks[engine] = peak_bytes(step)
        except UnsupportedModuleError:
            continue
        steps[engine] = Step(step)
    timings = time_in_turns(steps, SECONDS)
    print(name, {engine: each.ratio for engine, each in timings.items()}, flush=True)
    return (
        {engine: f"{each.ratio:.2f}" for engine, each in timings.items()},
        {engine: f"{peak / peaks['ordinary']:.2f}" for engine, peak in peaks.items()},
    )


def _step(case: Case, engine: str) -> Callable[[], None]:
    """Return one step of a model under an engine, or under none."""
    torch.manual_seed(0)
    model: nn.Module = case.model()
    x, y = (each[:BATCH] for each in case.data())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    if engine in ENGINES:
        PrivacyEngine(
            model,
            batch_size=BATCH,
            sample_size=10**6,
            steps=10**6,
            noise_multiplier=1.0,
            clipping_fn="Abadi",
            engine=engine,
            sampling="unchecked",
        ).attach(optimizer)

    def step() -> None:
        F.cross_entropy(model(x), y).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()

    return step


if __name__ == "__main__":
    main()

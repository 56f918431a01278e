"""CPU time of a step with correlated noise of 8 bands, as a ratio to a usual step.

Private steps of ``wide_mlp`` alternate, with independent and with correlated noise, on
the batches of their loaders.  The past noise of 7 steps is 28 bytes for each parameter.
"""

from __future__ import annotations

import copy
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.models import CASES
from dpsgd_explorer.accounting import ToeplitzStrategy, banded_strategy
from dpsgd_explorer.dp import PrivacyEngine
from dpsgd_explorer.training.timing import Step, time_in_turns
from tools.marked_text import markdown_table, put

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "how-to" / "correlated-noise.md"
HEAD = ("noise", "CPU time of a step", "ratio (quartiles)", "memory of past noise")

MODEL, BANDS = "wide_mlp", 8
PLANNED, RECORDS = 1000, 8192
MORE_STEPS = 10**6  # than any measurement makes
SECONDS = 120.0  # CPU time, over both steps
ALLOWED_RATIO = 1.15


def private_step(model: nn.Module, strategy: ToeplitzStrategy | None) -> Step:
    """Returns a step on the next batch of the engine's loader."""
    case = CASES[MODEL]
    generator = torch.Generator().manual_seed(1)
    data = (
        torch.randn(RECORDS, *case.sample_shape, generator=generator),
        torch.randint(case.classes, (RECORDS,), generator=generator),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    engine = PrivacyEngine(
        model,
        batch_size=case.batch,
        sample_size=RECORDS,
        steps=PLANNED,
        noise_multiplier=1.0,
        clipping_fn="Abadi",
        noise_correlation=strategy,
    )
    engine.attach(optimizer)
    batches = engine.poisson_loader(data, steps=MORE_STEPS).all_epochs()

    def step() -> None:
        assert engine is not None  # it stays attached
        x, y = next(batches)
        F.cross_entropy(model(x), y).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()

    return Step(step)


def measure(seconds: float = SECONDS) -> list[tuple[str, str, str, str]]:
    """Returns a row for each noise: time, ratio with quartiles, past noise."""
    model = CASES[MODEL].make()
    parameters = sum(p.numel() for p in model.parameters())
    strategies = {"independent": None, "correlated": banded_strategy(PLANNED, BANDS)}
    steps = {
        name: private_step(copy.deepcopy(model), strategy)
        for name, strategy in strategies.items()
    }
    for step in steps.values():
        step.run()
    timings = time_in_turns(steps, seconds)
    correlated = timings["correlated"]
    mebibytes = (BANDS - 1) * 4 * parameters / 2**20
    return [
        ("independent", f"{timings['independent'].milliseconds:.0f} ms", "1", "none"),
        (
            f"correlated, b = {BANDS}",
            f"{correlated.milliseconds:.0f} ms",
            f"{correlated.ratio:.2f} ({correlated.low:.2f} to {correlated.high:.2f})",
            f"{mebibytes:.0f} MiB",
        ),
    ]


def main() -> None:
    """Measures both steps, and writes the table."""
    table = markdown_table(HEAD, measure())
    print(f"{table}\nat most {ALLOWED_RATIO} is the goal")
    put(PAGE, "correlated steps", table)

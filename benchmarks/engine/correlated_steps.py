"""CPU time of a step with correlated noise, as a ratio to a usual step.

Private steps of ``wide_mlp`` alternate on the batches of their loaders: with
independent noise, with 8 bands, which keep the noise of 7 steps, and with DP-λCGD,
which keeps the noise of one step.
"""

from __future__ import annotations

import copy
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.models import CASES
from dpsgd_explorer.accounting import (
    ToeplitzStrategy,
    banded_strategy,
    geometric_strategy,
)
from dpsgd_explorer.dp import PrivacyEngine, choices
from dpsgd_explorer.dp.sampling.loader import Loader
from dpsgd_explorer.training.timing import Step, time_in_turns
from tools.marked_text import markdown_table, put

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "how-to" / "correlated-noise.md"
HEAD = ("noise", "CPU time of a step", "ratio (quartiles)", "memory of past noise")

MODEL, BANDS, DECAY = "wide_mlp", 8, 0.95
PLANNED, RECORDS = 1000, 8192
MORE_STEPS = 10**6  # than any measurement makes
SECONDS = 60.0  # CPU time, over all steps
ALLOWED_RATIO = 1.15


def private_step(
    model: nn.Module, strategy: ToeplitzStrategy | None, sampling: choices.Sampling
) -> Step:
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
        sampling=sampling,
    )
    engine.attach(optimizer)
    loader: Loader
    if sampling == "poisson":
        loader = engine.poisson_loader(data, steps=MORE_STEPS)
    else:
        loader = engine.fixed_slots_loader(data)
    batches = loader.all_epochs()

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
    strategies: dict[str, tuple[ToeplitzStrategy | None, choices.Sampling, int]] = {
        "independent": (None, "poisson", 0),
        f"correlated, b = {BANDS}": (
            banded_strategy(PLANNED, BANDS),
            "poisson",
            BANDS - 1,
        ),
        f"DP-λCGD, λ = {DECAY}": (geometric_strategy(DECAY, PLANNED), "fixed_slots", 1),
    }
    steps = {
        name: private_step(copy.deepcopy(model), strategy, sampling)
        for name, (strategy, sampling, _) in strategies.items()
    }
    for step in steps.values():
        step.run()
    timings = time_in_turns(steps, seconds)
    rows = []
    for name, (strategy, _, kept) in strategies.items():
        timing, ratio, memory = timings[name], "1", "none"
        if strategy is not None:
            ratio = f"{timing.ratio:.2f} ({timing.low:.2f} to {timing.high:.2f})"
            memory = f"{kept * 4 * parameters / 2**20:.0f} MiB"
        rows.append((name, f"{timing.milliseconds:.0f} ms", ratio, memory))
    return rows


def main() -> None:
    """Measures all steps, and writes the table."""
    table = markdown_table(HEAD, measure())
    print(f"{table}\nat most {ALLOWED_RATIO} is the goal")
    put(PAGE, "correlated steps", table)

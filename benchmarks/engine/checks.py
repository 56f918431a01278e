"""CPU time of the engine's checks in every step: structure, optimizer and outputs.

The safety check itself runs before the first step and rarely later; it is not included.
"""

from __future__ import annotations

from typing import Any

import torch

from benchmarks import record
from benchmarks.models import CASES, Case
from dpsgd_explorer.dp.checks.loss.marks import PassOutputs
from dpsgd_explorer.dp.checks.optimizer_check import OptimizerCheck
from dpsgd_explorer.dp.modules.structure import Structure
from dpsgd_explorer.training.timing import LEARNING_RATE, cpu_seconds, private_step

ROUNDS, CALLS = 9, 200
SMALL = 20e-6
"""Limit in seconds for the checks of a small model, plus 1 µs per module."""
SHARE = 0.01
"""Limit for the checks of a large model, as a share of its step."""


def measure(case: Case) -> dict[str, Any]:
    """Return the CPU time of the checks of one step, and of the whole step."""
    model = case.model()
    engine, step = private_step(model, case.data(), "hooks")
    step.run()
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    structure, groups = Structure(model), OptimizerCheck([optimizer], model)
    output, outputs = torch.zeros(2, 2), PassOutputs()

    def checks() -> None:
        structure.holds()
        groups.check()
        outputs.remember(output)
        outputs.check()

    seconds = cpu_seconds(checks, rounds=ROUNDS, calls=CALLS)
    whole = cpu_seconds(step.run, rounds=ROUNDS)
    engine.detach()
    modules = len(list(model.modules()))
    allowed = max(SHARE * whole, SMALL + 1e-6 * modules)
    return {
        "model": case.name,
        "modules": modules,
        "checks_us": 1e6 * seconds,
        "step_ms": 1e3 * whole,
        "share": seconds / whole,
        "allowed_us": 1e6 * allowed,
    }


def main() -> None:
    """Measure all models and write the results."""
    rows = [measure(case) for case in CASES.values()]
    for row in rows:
        print(
            f"{row['model']:12} {row['modules']:4} modules {row['checks_us']:8.1f} µs "
            f"of {row['step_ms']:8.2f} ms ({100 * row['share']:.3f} %), "
            f"allowed {row['allowed_us']:.0f} µs",
            flush=True,
        )
    print(record.update("checks", rows, "model"))

"""What the engine's checks take of every step: structure, optimizer and outputs.

The safety check itself runs before the first step and seldom after; these run at each.
CPU time, for other processes may be at work.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch

from benchmarks import record
from benchmarks.models import CASES, Case
from dpsgd_explorer.dp.engines.pass_outputs import PassOutputs
from dpsgd_explorer.dp.modules.structure import Structure
from dpsgd_explorer.dp.safety.optimizer_check import OptimizerCheck
from dpsgd_explorer.training.timing import LEARNING_RATE, private_step

ROUNDS, CALLS = 9, 200
SMALL = 20e-6
"""Seconds that the checks of a small model may take, and 1 µs more a module."""
SHARE = 0.01
"""Of a step that those of a larger one may take."""


def measure(case: Case) -> dict[str, Any]:
    """Return the time of the checks of one step beside that of the step."""
    model = case.model()
    engine, step = private_step(model, case.data(), "hooks")
    step.run()
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    structure, groups = Structure(model), OptimizerCheck(optimizer, model)
    output, outputs = torch.zeros(2, 2), PassOutputs()

    def checks() -> None:
        structure.holds()
        groups.check()
        outputs.remember(output)
        outputs.check()

    seconds, whole = _seconds(checks, CALLS), _seconds(step.run, 1)
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


def _seconds(run: Callable[[], object], calls: int) -> float:
    """Return the median CPU time of one call."""
    times = []
    for _ in range(ROUNDS):
        start = time.process_time()
        for _ in range(calls):
            run()
        times.append((time.process_time() - start) / calls)
    return median(times)

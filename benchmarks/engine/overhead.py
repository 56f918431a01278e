"""CPU time that privacy adds to a step of a model with negligible computation.

Stacks of ``Linear(4, 4)`` at batch size 8 alternate, ordinary and private with hooks.
The difference grows linearly with the number of layers: the slope is the overhead per
layer of Python and torch calls, and the value at one layer is the overhead per step.
"""

from __future__ import annotations

import statistics
from typing import Any

import torch
from torch import nn

from benchmarks import record
from dpsgd_explorer.training.timing import (
    Step,
    ordinary_step,
    private_step,
    time_in_turns,
)

LAYERS = (1, 2, 4, 8, 16)
WIDTH, BATCH = 4, 8
SECONDS = 40.0  # CPU time, over all stacks
ALLOWED_MS, ALLOWED_LAYER_MS = 0.25, 0.06


def stack(layers: int) -> nn.Module:
    """Returns a sequence of linear layers."""
    return nn.Sequential(*[nn.Linear(WIDTH, WIDTH) for _ in range(layers)])


def measure(seconds: float = SECONDS) -> dict[str, Any]:
    """Return the CPU time per step of each stack in ms, and the line through them."""
    torch.manual_seed(1)
    data = torch.randn(BATCH, WIDTH), torch.randint(WIDTH, (BATCH,))
    steps: dict[str, Step] = {}
    for layers in LAYERS:
        steps[f"ordinary {layers}"] = ordinary_step(stack(layers), data)
        steps[f"private {layers}"] = private_step(stack(layers), data, "hooks")[1]
    for step in steps.values():
        step.run()
    timings = time_in_turns(steps, seconds)
    rows = []
    for layers in LAYERS:
        ordinary = timings[f"ordinary {layers}"].milliseconds
        private = timings[f"private {layers}"].milliseconds
        rows.append(
            {
                "layers": layers,
                "ordinary_ms": ordinary,
                "private_ms": private,
                "added_ms": private - ordinary,
            }
        )
    line = statistics.linear_regression(LAYERS, [row["added_ms"] for row in rows])
    return {
        "rows": rows,
        "first_layer_ms": line.intercept + line.slope,
        "further_layer_ms": line.slope,
        "allowed_first_layer_ms": ALLOWED_MS,
        "allowed_further_layer_ms": ALLOWED_LAYER_MS,
    }


def main() -> None:
    """Measure, print, and write the results."""
    measured = measure()
    for row in measured["rows"]:
        print(
            f"{row['layers']:3} layers: ordinary {row['ordinary_ms']:.3f} ms, private "
            f"{row['private_ms']:.3f} ms, added {row['added_ms']:.3f} ms"
        )
    print(
        f"one layer adds {measured['first_layer_ms']:.3f} ms (at most {ALLOWED_MS}), "
        f"a further one {measured['further_layer_ms']:.4f} ms (at most "
        f"{ALLOWED_LAYER_MS})"
    )
    print(record.write("overhead", measured))

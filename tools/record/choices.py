"""Measure the trainer's choices of clipping, for its pages.

    python -m tools.record.choices

Writes dpsgd_explorer/web/recorded/choices/clipping.json: test accuracies of runs that
differ in the choice and the seed alone, and time and memory of each clipping mode.
"""

from __future__ import annotations

import statistics
import sys
from typing import Any

import torch

from benchmarks.models import CASES
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.experiments.vocabulary import (
    CLIPPING_FUNCTIONS,
    CLIPPING_MODES,
    CLIPPING_STYLES,
)
from dpsgd_explorer.training.dp_sgd import train
from dpsgd_explorer.training.timing import (
    machine,
    one_thread,
    ordinary_step,
    private_step,
    relative_costs,
)
from tools.record.files import write

SETTINGS: dict[str, Any] = {
    "model": "mlp",
    "expected_batch_size": 1024,
    "steps": 150,
    "learning_rate": 4.0,
    "evaluations": 1,
}
SEEDS = (7, 8, 9)
COMPARED = {"clipping_fn": CLIPPING_FUNCTIONS, "clipping_style": CLIPPING_STYLES}
CASE = "cnn"
BATCH = 64
SECONDS = 4.0


def main() -> int:
    """Train, measure, and write the file."""
    one_thread()
    config = TrainingConfig.parse(SETTINGS)
    stored = {
        "config": config.model_dump(mode="json", exclude_none=True),
        "seeds": list(SEEDS),
        "accuracy": {
            field: {choice: _accuracies(field, choice) for choice in choices}
            for field, choices in COMPARED.items()
        },
        "modes": {"model": CASE, "batch_size": BATCH, "figures": _modes()},
        "machine": machine() | {"torch": torch.__version__},
    }
    write("choices/clipping", stored, indent=1)
    return 0


def _accuracies(field: str, choice: str) -> list[float]:
    """Return the test accuracy of each seed's run."""
    reached = []
    for seed in SEEDS:
        config = TrainingConfig.parse(SETTINGS | {field: choice, "seed": seed})
        reached.append([*train(config)][-1].data["test_accuracy"])
    print(field, choice, statistics.mean(reached), flush=True)
    return reached


def _modes() -> dict[str, dict[str, float]]:
    """Return time and memory of each clipping mode, as ratios to the ordinary step."""
    case = CASES[CASE]
    x, y = (tensor[:BATCH] for tensor in case.data())
    steps = {"ordinary": ordinary_step(case.model(), (x, y))} | {
        mode: private_step(case.model(), (x, y), "hooks", mode)[1]
        for mode in CLIPPING_MODES
    }
    costs = relative_costs(steps, SECONDS)
    return {
        mode: {"time": costs[mode][0], "memory": costs[mode][1]}
        for mode in CLIPPING_MODES
    }


if __name__ == "__main__":
    sys.exit(main())

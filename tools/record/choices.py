"""Measure the trainer's choices of clipping, for its pages.

    python -m tools.record.choices

Writes dpsgd_explorer/web/recorded/choices/clipping.json: test accuracies of runs that
differ only in the choice and the seed.  ``tools.compare_engines`` records the cost of
modes and engines.
"""

from __future__ import annotations

import statistics
import sys
from typing import Any

import torch

from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.experiments.vocabulary import (
    CLIPPING_FUNCTIONS,
    CLIPPING_STYLES,
)
from dpsgd_explorer.training.dp_sgd import train
from dpsgd_explorer.training.timing import machine, one_thread
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


def main() -> int:
    """Train, and write the file."""
    one_thread()
    config = TrainingConfig.parse(SETTINGS)
    stored = {
        "config": config.model_dump(mode="json", exclude_none=True),
        "seeds": list(SEEDS),
        "accuracy": {
            field: {choice: _accuracies(field, choice) for choice in choices}
            for field, choices in COMPARED.items()
        },
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


if __name__ == "__main__":
    sys.exit(main())

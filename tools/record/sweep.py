"""Train the default run with other clipping bounds, learning rates and momenta.

    python -m tools.record.sweep

Writes dpsgd_explorer/web/recorded/choices/sweep.json: the settings that all runs share,
and the test accuracy of one run per row (C and momentum m) and per value of the reach
ηC/(1 - m), the maximum total length of clipped steps in one direction, which determines
η.
"""

from __future__ import annotations

import sys
from typing import Any

from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.training.dp_sgd import train
from dpsgd_explorer.training.timing import one_thread
from tools.record.files import versions, write

ROWS = ((0.01, 0.9), (0.1, 0.9), (1.0, 0.9), (10.0, 0.9), (0.1, 0.0))  # C, m
REACHES = (0.5, 2.0, 8.0, 32.0, 128.0)  # ηC/(1 - m); the default run's is 8
SWEPT = ("max_grad_norm", "momentum", "learning_rate")


def main() -> int:
    """Train once per row and reach and write the file."""
    one_thread()
    shared = TrainingConfig.parse({"evaluations": 1})
    config = shared.model_dump(mode="json", exclude_none=True)
    for name in SWEPT:
        del config[name]
    stored = {
        "config": config,
        "reaches": list(REACHES),
        "rows": [measured(bound, momentum) for bound, momentum in ROWS],
        **versions(),
    }
    write("choices/sweep", stored, indent=1)
    return 0


def measured(bound: float, momentum: float) -> dict[str, Any]:
    """Train with one C and momentum at each reach; return the recorded results."""
    row: dict[str, Any] = {"max_grad_norm": bound, "momentum": momentum}
    rates = [float(f"{reach * (1 - momentum) / bound:.6g}") for reach in REACHES]
    ends = [train_to_the_end(row | {"learning_rate": rate}) for rate in rates]
    row |= {"learning_rate": rates, "test_accuracy": ends}
    print(row, flush=True)
    return row


def train_to_the_end(settings: dict[str, Any]) -> float:
    """Return the test accuracy of the default run with these settings."""
    config = TrainingConfig.parse({"evaluations": 1} | settings)
    accuracy: float = [*train(config)][-1].data["test_accuracy"]
    return accuracy


if __name__ == "__main__":
    sys.exit(main())

"""Recording of the landing page's model, trained at nine noise multipliers.

    python -m dpsgd_explorer.web.hub.widgets.noise.record

Writes ``recorded.json`` into this folder: the shared settings of all runs and, for each
noise multiplier, its ε and the test accuracy of one run per seed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.training.dp_sgd import train
from dpsgd_explorer.training.timing import one_thread
from tools.record.files import versions, write
from tools.record.runs import STRICT

LEVELS = tuple(2.0**i for i in range(-1, 8))  # doublings from 0.5 to 128
SEEDS = (7, 8, 9)
SETTINGS: dict[str, Any] = STRICT.config | {"target_epsilon": None, "evaluations": 1}


def main() -> int:
    """Trains once per level and seed and write the file."""
    one_thread()
    levels = [measured(level) for level in LEVELS]
    shared = TrainingConfig.parse(SETTINGS | {"noise_multiplier": LEVELS[0]})
    config = shared.model_dump(mode="json", exclude_none=True)
    del config["noise_multiplier"], config["seed"]
    stored = {
        "config": config,
        "seeds": list(SEEDS),
        "levels": levels,
        **versions(),
    }
    write("recorded", stored, folder=Path(__file__).parent, indent=1)
    return 0


def measured(noise_multiplier: float) -> dict[str, Any]:
    """Trains with one noise multiplier and each seed, and return the results."""
    settings = SETTINGS | {"noise_multiplier": noise_multiplier}
    ends = [
        [*train(TrainingConfig.parse(settings | {"seed": seed}))][-1].data
        for seed in SEEDS
    ]
    recorded = {
        "noise_multiplier": noise_multiplier,
        "epsilon": ends[0]["epsilon"],
        "test_accuracy": [end["test_accuracy"] for end in ends],
    }
    print(recorded, flush=True)
    return recorded


if __name__ == "__main__":
    sys.exit(main())

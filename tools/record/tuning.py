"""Search settings for a data set at an ε, and count every trial.

    python -m tools.record.tuning [NAME ...]

Each entry of ``SEARCHES`` is a search: a base and the settings to try, one run each,
with the seed of the presets.  The winner is repeated with other seeds.  Writes
dpsgd_explorer/web/recorded/choices/tuning.json; other searches in it are preserved.
``python -m tools.write_presets_page`` then writes docs/maintainers/presets.md.
"""

from __future__ import annotations

import json
import os
import sys
import time
from itertools import product
from pathlib import Path
from typing import Any

from dpsgd_explorer.experiments.experiment import PerformanceSettings
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.training.dp_sgd import train
from dpsgd_explorer.training.timing import one_thread
from dpsgd_explorer.web.recorded.files import FOLDER
from tools.record.files import versions, write

NAME = "choices/tuning"
OTHER_SEEDS = (11, 12)
SCATTERED = {"expected_batch_size": 4096, "steps": 300, "max_grad_norm": 0.1}
SIGNALS = {
    "dataset": "signals",
    "model": "conv1d",
    "target_epsilon": 3.0,
    "expected_batch_size": 1024,
    "steps": 300,
    "max_grad_norm": 0.1,
}
SHAPES = ["constant", "linear"]
SEARCHES: dict[str, tuple[dict[str, Any], dict[str, list[Any]]]] = {
    "adult": (
        {"dataset": "adult", "model": "logistic", "target_epsilon": 1.0},
        {
            "expected_batch_size": [2048, 4096],
            "steps": [300, 600],
            "learning_rate": [10.0, 20.0],
            "max_grad_norm": [0.5, 1.0],
            "learning_rate_schedule": SHAPES,
        },
    ),
    "fashion-3": (
        SCATTERED | {"dataset": "fashion_mnist", "target_epsilon": 3.0},
        {"learning_rate": [8.0, 16.0], "learning_rate_schedule": SHAPES},
    ),
    "fashion-1": (
        SCATTERED | {"dataset": "fashion_mnist", "target_epsilon": 1.0},
        {"learning_rate": [8.0, 16.0], "learning_rate_schedule": SHAPES},
    ),
    "housing": (
        {
            "dataset": "housing",
            "model": "logistic",
            "target_epsilon": 1.0,
            "expected_batch_size": 2048,
            "steps": 200,
        },
        {"learning_rate": [4.0, 8.0], "max_grad_norm": [0.2, 0.5]},
    ),
    "mnist-3": (
        SCATTERED | {"target_epsilon": 3.0},
        {"learning_rate": [8.0, 16.0]},
    ),
    "mnist-1": (
        SCATTERED | {"target_epsilon": 1.0},
        {"learning_rate": [4.0, 8.0]},
    ),
    "mnist-8": (
        SCATTERED | {"target_epsilon": 8.0},
        {"learning_rate": [16.0, 24.0, 32.0], "steps": [300, 600]},
    ),
    "mnist-cnn": (
        {
            "model": "cnn",
            "target_epsilon": 3.0,
            "expected_batch_size": 512,
            "steps": 350,
            "max_grad_norm": 0.1,
        },
        {"learning_rate": [2.0, 4.0], "learning_rate_schedule": SHAPES},
    ),
    "names": (
        {
            "dataset": "names",
            "model": "char_lstm",
            "target_epsilon": 3.0,
            "expected_batch_size": 1024,
            "steps": 300,
            "optimizer": "adam",
            "max_grad_norm": 0.5,
        },
        {"learning_rate": [0.01, 0.02, 0.04], "learning_rate_schedule": SHAPES},
    ),
    "sentences": (
        {
            "dataset": "sentences",
            "model": "language_model",
            "trained_parameters": "lora",
            "target_epsilon": 3.0,
            "expected_batch_size": 64,
            "steps": 40,
            "optimizer": "adam",
            "max_grad_norm": 1.0,
        },
        {"learning_rate": [0.01, 0.02, 0.04]},
    ),
    "signals-adam": (
        SIGNALS | {"optimizer": "adam"},
        {"learning_rate": [0.01, 0.02, 0.04]},
    ),
    "signals": (SIGNALS, {"learning_rate": [8.0, 16.0]}),
}


def main(names: list[str]) -> int:
    """Run the named searches, or all; write the file after each."""
    one_thread()
    path = FOLDER / f"{NAME}.json"
    stored = json.loads(path.read_text("utf-8")) if path.exists() else {"searches": {}}
    for name in names or SEARCHES:
        stored["searches"][name] = searched(*SEARCHES[name])
        write(NAME, stored | versions(), indent=1)
    return 0


def searched(base: dict[str, Any], tried: dict[str, list[Any]]) -> dict[str, Any]:
    """Return a search: its base, its trials and the winner with other seeds."""
    trials = []
    for values in product(*tried.values()):
        settings = dict(zip(tried, values, strict=True))
        trials.append({"settings": settings} | measured(base | settings))
        print(trials[-1], flush=True)
    best = max(trials, key=lambda trial: trial["test_accuracy"])
    again = [measured(base | best["settings"] | {"seed": s}) for s in OTHER_SEEDS]
    return {
        "base": base,
        "trials": trials,
        "again": [one["test_accuracy"] for one in again],
    }


def measured(settings: dict[str, Any]) -> dict[str, Any]:
    """Return accuracy and CPU time of a run."""
    config = TrainingConfig.parse(settings | {"evaluations": 1})
    cache = os.environ.get("DPSGD_INSTANCE_DIR")
    folder = Path(cache) / "cache" if cache else None
    begin = time.process_time()
    end = [*train(config, performance=PerformanceSettings(cache_dir=folder))][-1]
    seconds = round(time.process_time() - begin, 1)
    return {"test_accuracy": end.data["test_accuracy"], "cpu_seconds": seconds}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

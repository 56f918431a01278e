"""What an answer of ``/api/v1/privacy/plan`` costs, in CPU time, over the form's range.

    python -m benchmarks.plans

Nothing is asked twice, so that no cache serves.  The preliminary answer is what the
trainer shows first, the full one what follows.
"""

from __future__ import annotations

import itertools
import json
import statistics
import time
from importlib import import_module
from typing import Any

from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.api.privacy import planned
from dpsgd_explorer.web.questions.plan_preview import CURVE_POINTS

DATA: tuple[dict[str, Any], ...] = (
    {"dataset": "adult", "model": "logistic"},
    {"dataset": "mnist"},
)
BATCHES = (1, 7, 32, 64, 256, 1024, 4096, 16_384)
STEPS = (20, 300, 3000)
TARGETS: tuple[dict[str, float], ...] = (
    {"noise_multiplier": 1.1},
    {"target_epsilon": 0.5},
    {"target_epsilon": 3.0},
    {"target_epsilon": 8.0},
)


def measured() -> dict[str, dict[str, float]]:
    """Return the median and the largest CPU time of both answers, in milliseconds."""
    import_module("scipy.optimize")  # as the web application does when it starts
    grid = itertools.product(DATA, BATCHES, STEPS, TARGETS)
    settings = [
        data | {"expected_batch_size": batch, "steps": steps} | target
        for data, batch, steps, target in grid
    ]
    return {
        name: _summary([_cost(one, preliminary=preliminary) for one in settings])
        for name, preliminary in (("preliminary", True), ("full", False))
    }


def _cost(settings: dict[str, Any], *, preliminary: bool) -> float:
    config = TrainingConfig(**settings)
    start = time.process_time()
    planned(config, CURVE_POINTS, preliminary=preliminary)
    return 1000 * (time.process_time() - start)


def _summary(times: list[float]) -> dict[str, float]:
    over = sum(each > 100 for each in times)
    return {
        "plans": len(times),
        "median_ms": round(statistics.median(times), 1),
        "worst_ms": round(max(times), 1),
        "over_100_ms": over,
    }


if __name__ == "__main__":
    print(json.dumps(measured(), indent=1))

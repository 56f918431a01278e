"""CPU time of the answers of ``/api/v1/privacy/plan``, over the form's range.

No query is repeated, so that caches have no effect.  The trainer shows the preliminary
answer first and then replaces it with the full one.
"""

from __future__ import annotations

import itertools
import statistics
from functools import partial
from importlib import import_module
from typing import Any

from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.training.timing import cpu_seconds
from dpsgd_explorer.web.questions.plan_preview import CURVE_POINTS, planned

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
STOP = 0.3  # ε


def measured() -> dict[str, dict[str, float]]:
    """Return the median and the largest CPU time of each answer, in milliseconds."""
    import_module("scipy.optimize")  # as the web application does when it starts
    settings, stopped = _settings(1.0), _settings(1.01)  # differ, because of caches
    for config in stopped:
        config["stop_at_epsilon"] = STOP
    return {
        name: _summary([_cost(config, preliminary=preliminary) for config in asked])
        for name, asked, preliminary in (
            ("preliminary", settings, True),
            ("preliminary, with a stop", stopped, True),
            ("full", settings, False),
        )
    }


def _settings(scale: float) -> list[dict[str, Any]]:
    return [
        data
        | {"expected_batch_size": batch, "steps": steps}
        | {name: scale * value for name, value in target.items()}
        for data, batch, steps, target in itertools.product(
            DATA, BATCHES, STEPS, TARGETS
        )
    ]


def _cost(settings: dict[str, Any], *, preliminary: bool) -> float:
    config = TrainingConfig(**settings)
    work = partial(planned, config, CURVE_POINTS, preliminary=preliminary)
    return 1000 * cpu_seconds(work, rounds=1)


def _summary(times: list[float]) -> dict[str, float]:
    over = sum(time > 100 for time in times)
    return {
        "plans": len(times),
        "median_ms": round(statistics.median(times), 1),
        "worst_ms": round(max(times), 1),
        "over_100_ms": over,
    }

"""Recording of the accuracies of private, clipped-only and ordinary training.

    python -m dpsgd_explorer.web.hub.widgets.three_way_twin.record

All twins of a seed share initial parameters and batches.  Each kind is first trained at
every learning rate of a grid, with seeds for tuning only; the tuned rate has the best
mean test accuracy.  Then each kind is trained at the tuned rates of all three kinds,
with other seeds.  Writes ``recorded.json`` into this folder: the shared settings of all
runs, the accuracies of the tuning, and the accuracy curve of each kind, rate and seed.
"""

from __future__ import annotations

import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

from dpsgd_explorer.errors import DivergedError
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.training.dp_sgd import train
from dpsgd_explorer.training.timing import one_thread
from tools.record.files import versions, write
from tools.record.runs import STRICT

KINDS: dict[str, dict[str, Any]] = {
    "private": {},
    "clipped only": {"target_epsilon": None, "noise_multiplier": 0.0},
    "ordinary": {"private": False},
}
RATES = {  # grids of doublings; unclipped gradients need much smaller rates
    "private": tuple(2.0**i for i in range(1, 8)),
    "clipped only": tuple(2.0**i for i in range(1, 8)),
    "ordinary": tuple(2.0**i for i in range(-7, 3)),
}
TUNING_SEEDS = (4, 5, 6)
SEEDS = (7, 8, 9)
EVALUATIONS = 24
PROCESSES = 2
Run = tuple[str, float, int, int]  # kind, learning rate, seed, evaluations
Curve = list[tuple[int, float]]  # step and test accuracy


def main() -> int:
    """Tunes, train, and write the file."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(PROCESSES, context, one_thread) as processes:
        tuning = [
            (kind, rate, seed, 1)
            for kind in KINDS
            for rate, seed in product(RATES[kind], TUNING_SEEDS)
        ]
        ends = dict(zip(tuning, processes.map(measured, tuning), strict=True))
        tuned = {
            kind: {
                f"{rate:g}": [_end(ends[kind, rate, seed, 1]) for seed in TUNING_SEEDS]
                for rate in RATES[kind]
            }
            for kind in KINDS
        }
        tuned_rates = {
            kind: best_rate(kind, accuracies) for kind, accuracies in tuned.items()
        }
        rates = sorted(set(tuned_rates.values()))
        runs = [(*run, EVALUATIONS) for run in product(KINDS, rates, SEEDS)]
        curves = dict(zip(runs, processes.map(measured, runs), strict=True))
    shared = TrainingConfig.parse(STRICT.config | {"evaluations": EVALUATIONS})
    config = shared.model_dump(mode="json", exclude_none=True)
    del config["learning_rate"], config["seed"]
    stored = {
        "config": config,
        "kinds": KINDS,
        "tuning": {"seeds": list(TUNING_SEEDS), "test_accuracy": tuned},
        "own_rates": tuned_rates,
        "seeds": list(SEEDS),
        "steps": shared.evaluation_steps,
        "test_accuracy": {
            kind: {
                f"{rate:g}": [
                    _accuracies(curves[kind, rate, s, EVALUATIONS]) for s in SEEDS
                ]
                for rate in rates
            }
            for kind in KINDS
        },
        **versions(),
    }
    write("recorded", stored, folder=Path(__file__).parent, indent=1)
    return 0


def measured(run: Run) -> Curve | None:
    """Trains once; return step and test accuracy of each evaluation.

    None if the run diverged.
    """
    kind, rate, seed, evaluations = run
    settings = {"learning_rate": rate, "seed": seed, "evaluations": evaluations}
    config = TrainingConfig.parse(STRICT.config | KINDS[kind] | settings)
    try:
        events = [event.data for event in train(config) if event.kind == "evaluation"]
    except DivergedError:
        return None
    curve = [(event["step"], event["test_accuracy"]) for event in events]
    print(run, curve[-1], flush=True)
    return curve


def best_rate(kind: str, accuracies: dict[str, list[float | None]]) -> float:
    """Returns the rate with the best mean accuracy; a diverged run counts as 0.

    Raises:
        ValueError: The best rate is at an end of the grid.
    """
    means = {
        float(rate): mean(x or 0.0 for x in ends) for rate, ends in accuracies.items()
    }
    best = max(means, key=means.__getitem__)
    if best in (RATES[kind][0], RATES[kind][-1]):
        raise ValueError(
            f"the best learning rate of {kind!r}, {best:g}, is at an end of its grid; "
            "widen RATES."
        )
    return best


def _end(curve: Curve | None) -> float | None:
    return curve[-1][1] if curve else None


def _accuracies(curve: Curve | None) -> list[float] | None:
    return [accuracy for _, accuracy in curve] if curve else None


if __name__ == "__main__":
    sys.exit(main())

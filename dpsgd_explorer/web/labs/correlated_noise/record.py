"""Recording of the strategies of the lab, with their noise at equal ε.

    python -m dpsgd_explorer.web.labs.correlated_noise.record

Writes ``recorded.json`` into this folder.  Takes about ten seconds.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.correlated_noise import (
    DELTA,
    noise_of_bands,
    sensitivity_of_fixed_slots,
)
from dpsgd_explorer.accounting import (
    ToeplitzStrategy,
    TreeStrategy,
    banded_strategy,
    gaussian_noise_multiplier,
    geometric_strategy,
)
from dpsgd_explorer.accounting.correlated.strategy import Strategy
from dpsgd_explorer.accounting.correlated.tree import ESTIMATORS
from dpsgd_explorer.web.questions.rounding import need
from tools.record.files import write

EPSILONS = (0.5, 1.0, 2.0, 3.0, 5.0, 8.0)
BANDS = (1, 2, 4, 8, 16, 32)
DECAYS = (0.0, 0.5, 0.8, 0.9, 0.95, 0.98)
SHOWN_STEPS = 60
LEAST_WEIGHT = 1e-4  # of the noise of earlier steps, in a drawing


@dataclass(frozen=True)
class Run:
    """Sizes of a run."""

    records: int
    batch_size: int
    steps: int

    def __str__(self) -> str:
        """Returns the sizes in words."""
        return f"{self.batch_size:,} of {self.records:,} records, {self.steps:,} steps"


RUNS = (Run(60_000, 512, 2000), Run(60_000, 4096, 300), Run(10_000, 256, 1000))


def main() -> int:
    """Calibrates all strategies."""
    stored = {
        "delta": DELTA,
        "epsilons": EPSILONS,
        "runs": [recorded(run) for run in RUNS],
    }
    write("recorded", stored, folder=Path(__file__).parent)
    return 0


def recorded(run: Run) -> dict[str, Any]:
    """Returns the strategies of both kinds."""
    shown = np.unique(np.linspace(1, run.steps, SHOWN_STEPS).round().astype(int))
    cyclic, fixed = list(_cyclic(run)), list(_fixed(run))
    independent = np.array(cyclic[0][3]) * cyclic[0][1].rmse()
    sent = partial(_sent, base=independent, shown=shown)
    return {
        "name": str(run),
        "steps": run.steps,
        "shown": shown.tolist(),
        "cyclic": [sent(*one) for one in cyclic],
        "fixed": [sent(*one) for one in fixed],
    }


#: Name, strategy, sensitivity, and its noise at each ε.
Row = tuple[str, Strategy, float, list[float]]


def _cyclic(run: Run) -> Iterator[Row]:
    for bands in BANDS:
        if bands * run.batch_size > run.records:
            continue
        sizes = (run.records, run.batch_size, run.steps)
        noise = [noise_of_bands(*sizes, epsilon, bands) for epsilon in EPSILONS]
        strategy = banded_strategy(run.steps, bands)
        yield f"b = {bands}", strategy, strategy.column_norm, noise


def _fixed(run: Run) -> Iterator[Row]:
    noise = [gaussian_noise_multiplier(epsilon=e, delta=DELTA) for e in EPSILONS]
    sizes = (run.records, run.batch_size)
    for decay in DECAYS:
        strategy = geometric_strategy(decay, run.steps)
        sensitivity = sensitivity_of_fixed_slots(strategy, *sizes)
        yield f"λ = {decay:g}", strategy, sensitivity, noise
    for name in ESTIMATORS:
        tree = TreeStrategy(run.steps, name)
        sensitivity = sensitivity_of_fixed_slots(tree, *sizes)
        yield f"binary tree, {name}", tree, sensitivity, noise


def _sent(
    name: str,
    strategy: Strategy,
    sensitivity: float,
    noise: list[float],
    *,
    base: np.ndarray,
    shown: np.ndarray,
) -> dict[str, Any]:
    errors = strategy.prefix_errors(sensitivity=sensitivity)
    ratios = np.array(noise) * strategy.rmse(sensitivity=sensitivity) / base
    return {
        "name": name,
        "sigmas": [need(sigma) for sigma in noise],
        "noise": [round(sigma * sensitivity, 4) for sigma in noise],
        "errors": [round(error / sensitivity, 4) for error in errors[shown - 1]],
        "ratios": [f"{ratio:.2f}" for ratio in ratios],
        **_drawn(strategy),
    }


def _drawn(strategy: Strategy) -> dict[str, Any]:
    """Returns the values from which the browser draws noise."""
    if isinstance(strategy, TreeStrategy):
        return {"estimator": strategy.estimator}
    assert isinstance(strategy, ToeplitzStrategy), "it has weights"
    weights = strategy.noise_weights()
    kept = int(np.flatnonzero(np.abs(weights) > LEAST_WEIGHT).max()) + 1
    return {"weights": [round(weight, 5) for weight in weights[:kept].tolist()]}


if __name__ == "__main__":
    sys.exit(main())

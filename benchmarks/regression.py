"""CPU time of the notebook's sweep: 50 budgets, 20 releases each of SSP and AdaSSP.

The same sweep is timed with the noise calibrated by autodp, one call per budget and
method, if autodp is installed; and the whole comparison with its four descents.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np

from dpsgd_explorer.experiments.california_housing import housing
from dpsgd_explorer.regression import budget, compare
from dpsgd_explorer.regression.bounds import Bounds
from dpsgd_explorer.regression.budget import Budget
from dpsgd_explorer.regression.comparison import EPSILONS, sweep
from dpsgd_explorer.regression.perturbation import METHODS, Perturbation
from dpsgd_explorer.regression.statistics import Statistics
from dpsgd_explorer.training.timing import ROUNDS, cpu_seconds

DELTA = 1e-6
REPETITIONS = 20
BRACKET = [0, 100]  # the notebook's bounds for autodp's search for the scale


def main() -> None:
    """Print one line per measurement."""
    prepared = housing.NOTEBOOK.apply(*housing.load())
    statistics = Statistics.of(prepared.X, prepared.y)
    size = f"{len(EPSILONS)} budgets x {REPETITIONS} releases x {len(METHODS)} methods"
    print_seconds(f"sweep, {size}, exact budgets", lambda: ours(statistics))
    calibrated = "the same with autodp's calibrator"
    if importlib.util.find_spec("autodp") is None:
        print(f"{calibrated}: autodp is not installed")
    else:
        print_seconds(calibrated, lambda: theirs(statistics))
    print_seconds(
        f"whole comparison, {REPETITIONS} repetitions, four descents to 50,251 steps",
        lambda: compare(prepared.X, prepared.y, delta=DELTA, y_bound=5.0),
        rounds=1,
    )


def print_seconds(what: str, work: Callable[[], object], rounds: int = ROUNDS) -> None:
    """Time some work and print its median CPU seconds."""
    print(f"{what}: {cpu_seconds(work, rounds=rounds):.3f} s")


def ours(statistics: Statistics) -> None:
    """Calibrate and release, without the caches of earlier rounds."""
    budget.exact_noise_multiplier.cache_clear()
    budget._scaled.cache_clear()
    rng = np.random.default_rng(0)
    for name in METHODS:
        sweep(notebook(name), statistics, EPSILONS, DELTA, rng, REPETITIONS)


def theirs(statistics: Statistics) -> None:
    """Calibrate with autodp and release the same statistics."""
    calibrate = importlib.import_module("autodp.calibrator_zoo").eps_delta_calibrator()
    rng = np.random.default_rng(0)
    for name in METHODS:
        method = notebook(name)
        for epsilon in EPSILONS:
            parts = method.budget(epsilon, DELTA).parts
            ratios = {part.name: part.ratio for part in parts}
            scaled = calibrate(scaled_mechanism(ratios), epsilon, DELTA, BRACKET)
            multipliers = {
                key: scaled.params["scale"] * ratio for key, ratio in ratios.items()
            }
            budget_of_autodp = Budget(epsilon, epsilon, DELTA, parts, multipliers)
            statistics.mse_of(
                method.release(statistics, budget_of_autodp, rng, REPETITIONS)
            )


def scaled_mechanism(ratios: dict[str, float]) -> Callable[[float], Any]:
    """Return a function from scale to mechanism for autodp's calibrator."""
    core = importlib.import_module("autodp.autodp_core")
    zoo = importlib.import_module("autodp.mechanism_zoo")
    compose = importlib.import_module("autodp.transformer_zoo").ComposeGaussian()

    def mechanism_at(scale: float) -> Any:
        parts = [zoo.ExactGaussianMechanism(scale * r) for r in ratios.values()]
        mechanism = core.Mechanism()
        mechanism.params = {"scale": scale}
        mechanism.set_all_representation(compose(parts, [1] * len(parts)))
        return mechanism

    return mechanism_at


def notebook(name: str) -> Perturbation:
    """Return a method in the notebook's variant."""
    return Perturbation(method=name, bounds=Bounds(1.0, 5.0), variant="notebook")

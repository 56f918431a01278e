"""Errors of sums with correlated noise, at the ε of independent noise.

    python -m benchmarks correlated_noise

Prints the table of docs/explanation/math.md and writes it there.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

from dpsgd_explorer.accounting import (
    ToeplitzStrategy,
    TreeStrategy,
    banded_strategy,
    cyclic_poisson,
    gaussian_noise_multiplier,
    geometric_strategy,
    noise_multiplier,
)
from dpsgd_explorer.accounting.correlated.strategy import Strategy
from dpsgd_explorer.accounting.epochs import slots_of
from dpsgd_explorer.accounting.sampling_schemes import FIXED_SLOTS
from tools.marked_text import markdown_table, put

PAGE = Path(__file__).parent.parent / "docs" / "explanation" / "math.md"
RECORDS, DELTA = 60_000, 1e-5
RUNS = ((4096, 300), (512, 2000))  # batch size, steps
EPSILONS = (1, 3, 8)
BANDS = (2, 4, 8, 16, 32)
DECAY = 0.95
ESTIMATORS = ("plain", "full")  # of sums, from a binary tree


def noise_of_bands(
    records: int, batch_size: int, steps: int, epsilon: float, bands: int
) -> float:
    """Returns σ of b bands with cyclic Poisson sampling."""
    rounds = cyclic_poisson(
        sample_rate=batch_size / records,
        noise_multiplier=1.0,
        steps=steps,
        bands=bands,
    )
    return noise_multiplier(
        target_epsilon=epsilon,
        sample_rate=rounds.sample_rate,
        steps=rounds.steps,
        delta=DELTA,
    )


def error_of_bands(batch_size: int, steps: int, epsilon: float, bands: int) -> float:
    """Returns the error of b bands with cyclic Poisson sampling."""
    sigma = noise_of_bands(RECORDS, batch_size, steps, epsilon, bands)
    return sigma * banded_strategy(steps, bands).rmse()


def sensitivity_of_fixed_slots(
    strategy: Strategy, records: int, batch_size: int
) -> float:
    """Returns the sensitivity with the engine's number of fixed slots."""
    slots = slots_of(records, batch_size, FIXED_SLOTS)
    assert slots is not None, "fixed slots have a number"
    return strategy.fixed_slots_sensitivity(slots)


def error_of_fixed_slots(strategy: Strategy, batch_size: int, epsilon: float) -> float:
    """Returns the error of a strategy, with each record in the same slot each epoch."""
    sigma = gaussian_noise_multiplier(epsilon=epsilon, delta=DELTA)
    sensitivity = sensitivity_of_fixed_slots(strategy, RECORDS, batch_size)
    return sigma * strategy.rmse(sensitivity=sensitivity)


def table() -> str:
    """Returns the table in Markdown."""
    head = ["batch, steps", "ε", *(f"b = {bands}" for bands in BANDS)]
    head += ["fixed slots, independent", f"fixed slots, λ = {DECAY}"]
    head += [f"fixed slots, binary tree, {name}" for name in ESTIMATORS]
    rows = []
    for (batch_size, steps), epsilon in product(RUNS, EPSILONS):
        errors = [
            error_of_bands(batch_size, steps, epsilon, bands)
            if bands * batch_size <= RECORDS
            else None
            for bands in BANDS
        ]
        fixed: list[Strategy] = [
            ToeplitzStrategy((1.0,), steps),
            geometric_strategy(DECAY, steps),
            *(TreeStrategy(steps, name) for name in ESTIMATORS),
        ]
        errors += [error_of_fixed_slots(one, batch_size, epsilon) for one in fixed]
        independent = error_of_bands(batch_size, steps, epsilon, 1)
        cells = ["–" if e is None else f"{e / independent:.3f}" for e in errors]
        rows.append([f"{batch_size}, {steps}", f"{epsilon}", *cells])
    return markdown_table(head, rows)


def main() -> None:
    """Prints the table, and writes it into the page."""
    made = table()
    print(made)
    put(PAGE, "correlated noise", made)

"""Errors of sums with correlated noise, at the ε of independent noise.

    python -m benchmarks.correlated_noise

Prints the table of docs/explanation/math.md and writes it there.
"""

from __future__ import annotations

from pathlib import Path

from dpsgd_explorer.accounting import (
    ToeplitzStrategy,
    banded_strategy,
    cyclic_poisson,
    gaussian_noise_multiplier,
    geometric_strategy,
    noise_multiplier,
)

PAGE = Path(__file__).parent.parent / "docs" / "explanation" / "math.md"
MARKS = ("<!-- correlated noise -->\n", "<!-- /correlated noise -->\n")
RECORDS, DELTA = 60_000, 1e-5
RUNS = ((4096, 300), (512, 2000))  # batch size, steps
EPSILONS = (1, 3, 8)
BANDS = (2, 4, 8, 16, 32)
DECAY = 0.95


def error_of_bands(batch_size: int, steps: int, epsilon: float, bands: int) -> float:
    """Returns the error of b bands with cyclic Poisson sampling."""
    rounds = cyclic_poisson(
        sample_rate=batch_size / RECORDS, noise_multiplier=1.0, steps=steps, bands=bands
    )
    sigma = noise_multiplier(
        target_epsilon=epsilon,
        sample_rate=rounds.sample_rate,
        steps=rounds.steps,
        delta=DELTA,
    )
    return sigma * banded_strategy(steps, bands).rmse()


def error_of_fixed_slots(
    strategy: ToeplitzStrategy, batch_size: int, epsilon: float
) -> float:
    """Returns the error of a strategy, with each record in the same slot each epoch."""
    sigma = gaussian_noise_multiplier(epsilon=epsilon, delta=DELTA)
    slots = RECORDS // batch_size
    return sigma * strategy.rmse(sensitivity=strategy.fixed_slots_sensitivity(slots))


def table() -> str:
    """Returns the table in Markdown."""
    lines = [
        "| batch, steps | ε | "
        + " | ".join(f"b = {bands}" for bands in BANDS)
        + f" | fixed slots, independent | fixed slots, λ = {DECAY} |",
        "| --- | --- |" + " --- |" * (len(BANDS) + 2),
    ]
    for batch_size, steps in RUNS:
        for epsilon in EPSILONS:
            independent = error_of_bands(batch_size, steps, epsilon, 1)
            errors = [
                error_of_bands(batch_size, steps, epsilon, bands)
                if bands * batch_size <= RECORDS
                else None
                for bands in BANDS
            ]
            errors += [
                error_of_fixed_slots(strategy, batch_size, epsilon)
                for strategy in (
                    ToeplitzStrategy((1.0,), steps),
                    geometric_strategy(DECAY, steps),
                )
            ]
            cells = ["–" if e is None else f"{e / independent:.3f}" for e in errors]
            lines.append(f"| {batch_size}, {steps} | {epsilon} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Prints the table, and writes it into the page."""
    made = table()
    print(made)
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    PAGE.write_text(f"{before}{MARKS[0]}\n{made}\n{MARKS[1]}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()

"""Train with independent and with correlated noise, at equal ε and with several seeds.

    python -m tools.record.correlated_noise
    python -m tools.record.correlated_noise signals

Writes dpsgd_explorer/web/recorded/choices/correlated_noise.json, and the tables of
docs/how-to/correlated-noise.md.  Names of data sets record these alone.  ``--page``
writes the tables alone.  Each row takes the learning rate that is best for one further
seed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.training.dp_sgd import train
from dpsgd_explorer.training.timing import one_thread
from dpsgd_explorer.web.questions.rounding import need
from dpsgd_explorer.web.recorded.files import recording
from tools.marked_text import markdown_table, put
from tools.record.files import versions, write
from tools.record.random_allocation import accuracy, difference

RECORDING = "choices/correlated_noise"
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "correlated-noise.md"
PLAIN = {"evaluations": 1, "audit": 0}
Sizes = dict[str, int]
#: Settings of each row, and its learning rates to choose from.
Rows = tuple[tuple[Sizes, tuple[float, ...]], ...]


def _rows(small: Sizes, large: Sizes, *rates: tuple[float, ...]) -> Rows:
    """Return small batches with bands and without, and large batches without."""
    sizes = (
        small | {"noise_bands": 8},
        small | {"noise_bands": 1},
        large | {"noise_bands": 1},
    )
    return tuple(zip(sizes, rates, strict=True))


#: Shared settings and rows of each data set.
COMPARISONS: dict[str, tuple[dict[str, Any], Rows]] = {
    "housing": (
        {"model": "logistic", "target_epsilon": 3.0, "max_grad_norm": 0.5},
        _rows(
            {"expected_batch_size": 64, "steps": 1000},
            {"expected_batch_size": 2048, "steps": 200},
            (1.0, 3.0, 10.0),
            (0.3, 1.0, 3.0),
            (2.0, 4.0, 8.0),
        ),
    ),
    "signals": (
        {"model": "conv1d", "target_epsilon": 8.0, "max_grad_norm": 0.1},
        _rows(
            {"expected_batch_size": 128, "steps": 2000},
            {"expected_batch_size": 2048, "steps": 500},
            (2.0, 4.0, 8.0),
            (1.0, 2.0, 4.0),
            (8.0, 16.0, 32.0),
        ),
    ),
}
SEEDS = tuple(range(5))
TUNING_SEED = 11


def main(arguments: list[str]) -> int:
    """Train each row with each seed, and write both files."""
    stored = recording(RECORDING)
    if "--page" not in arguments:
        one_thread()
        for dataset in arguments or COMPARISONS:
            stored = stored | {dataset: compared(dataset)}
            write(RECORDING, stored, indent=1)
    for dataset, comparison in stored.items():
        put(PAGE, dataset, part(comparison))
    return 0


def compared(dataset: str) -> dict[str, Any]:
    """Train all rows of a data set; return the recorded results."""
    shared, rows = COMPARISONS[dataset]
    given = {"dataset": dataset} | shared | PLAIN
    config = TrainingConfig.parse(given).model_dump(
        mode="json", exclude_none=True, exclude={"seed", "learning_rate", *rows[0][0]}
    )
    results = [measured(config | sizes, rates) for sizes, rates in rows]
    return {"config": config, "rows": results, **versions()}


def measured(config: dict[str, Any], rates: tuple[float, ...]) -> dict[str, Any]:
    """Choose the learning rate with one seed, and train with the others."""
    tried = {
        rate: reached(config | {"learning_rate": rate, "seed": TUNING_SEED})
        for rate in rates
    }
    row = {
        name: config[name] for name in ("expected_batch_size", "steps", "noise_bands")
    }
    row["learning_rate"] = max(tried, key=lambda rate: tried[rate])
    chosen = config | row
    row |= {
        "noise_multiplier": TrainingConfig.parse(chosen).plan.noise_multiplier,
        "tried": [[rate, value] for rate, value in tried.items()],
        "seeds": list(SEEDS),
        "test_accuracy": [reached(chosen | {"seed": seed}) for seed in SEEDS],
    }
    print(row, flush=True)
    return row


def reached(config: dict[str, Any]) -> float:
    """Return the test accuracy of a run."""
    return float([*train(TrainingConfig.parse(config))][-1].data["test_accuracy"])


def part(stored: dict[str, Any]) -> str:
    """Return a table of the page, the differences in accuracy, and the memory."""
    first, *others = stored["rows"]
    explanation = (
        "Accuracy with correlated noise minus accuracy with independent noise, in "
        "percentage points: mean of the seeds' differences ± its standard error."
    )
    lines = [
        f"- batches of {row['expected_batch_size']:,}: "
        + difference(row["test_accuracy"], first["test_accuracy"])
        for row in others
    ]
    parameters = TrainingConfig.parse(stored["config"]).parameters
    memory = 4 * (first["noise_bands"] - 1) * parameters / 1024
    cost = (
        f"Memory of past noise: {memory:.0f} KiB for {parameters:,} parameters. "
        f"Recorded on one CPU thread with PyTorch {stored['torch']}."
    )
    return "\n\n".join([table(stored["rows"]), explanation, "\n".join(lines), cost])


def table(rows: list[dict[str, Any]]) -> str:
    """Return the table of the page."""
    header = ["noise", "batch", "steps", "gradients", "σ", "η"]
    header.append("test accuracy, mean ± std")
    cells = [
        [
            noise(row["noise_bands"]),
            f"{row['expected_batch_size']:,}",
            f"{row['steps']:,}",
            f"{row['expected_batch_size'] * row['steps']:,}",
            need(row["noise_multiplier"]),
            f"{row['learning_rate']:g}",
            accuracy(row["test_accuracy"]),
        ]
        for row in rows
    ]
    return markdown_table(header, cells)


def noise(bands: int) -> str:
    """Return the kind of the noise."""
    return "independent" if bands == 1 else f"correlated, b = {bands}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Train with independent and with correlated noise, at equal ε and with several seeds.

    python -m tools.record.correlated_noise

Writes dpsgd_explorer/web/recorded/choices/correlated_noise.json, and the table of
docs/how-to/correlated-noise.md.  ``--page`` writes the table alone.  Each row takes the
learning rate that is best for one further seed.
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
PART = "measured"
SHARED = {
    "dataset": "housing",
    "model": "logistic",
    "target_epsilon": 3.0,
    "max_grad_norm": 0.5,
    "evaluations": 1,
    "audit": 0,
}
SMALL = {"expected_batch_size": 64, "steps": 1000}
LARGE = {"expected_batch_size": 2048, "steps": 200}
#: Settings of each row, and its learning rates to choose from.
ROWS: tuple[tuple[dict[str, int], tuple[float, ...]], ...] = (
    (SMALL | {"noise_bands": 8}, (1.0, 3.0, 10.0)),
    (SMALL | {"noise_bands": 1}, (0.3, 1.0, 3.0)),
    (LARGE | {"noise_bands": 1}, (2.0, 4.0, 8.0)),
)
SEEDS = tuple(range(5))
TUNING_SEED = 11


def main(arguments: list[str]) -> int:
    """Train each row with each seed, and write both files."""
    if "--page" in arguments:
        stored = recording(RECORDING)
    else:
        one_thread()
        config = TrainingConfig.parse(SHARED).model_dump(
            mode="json", exclude_none=True, exclude={"seed", "learning_rate", *SMALL}
        )
        rows = [measured(config | given, rates) for given, rates in ROWS]
        stored = {"config": config, "rows": rows, **versions()}
        write(RECORDING, stored, indent=1)
    put(PAGE, PART, part(stored))
    return 0


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
    """Return the table of the page, and the differences in accuracy."""
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
    return "\n\n".join([table(stored["rows"]), explanation, "\n".join(lines)])


def table(rows: list[dict[str, Any]]) -> str:
    """Return the table of the page."""
    header = ["noise", "batch", "steps", "σ", "η", "test accuracy, mean ± std"]
    cells = [
        [
            noise(row["noise_bands"]),
            f"{row['expected_batch_size']:,}",
            f"{row['steps']:,}",
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

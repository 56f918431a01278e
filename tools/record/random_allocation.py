"""Train the default run with both samplings, at equal ε and with several seeds.

    python -m tools.record.random_allocation

Writes dpsgd_explorer/web/recorded/choices/random_allocation.json, and the table of
docs/how-to/each-record-once.md.  ``--page`` writes the table alone.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch

from dpsgd_explorer.accounting.sampling_schemes import POISSON
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.training.dp_sgd import train
from dpsgd_explorer.training.timing import one_thread
from dpsgd_explorer.training.train_step import sampler_of
from dpsgd_explorer.web.questions.rounding import need
from dpsgd_explorer.web.recorded.files import recording
from tools.marked_text import markdown_table, put
from tools.record.files import versions, write

RECORDING = "choices/random_allocation"
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "each-record-once.md"
PART = "measured"
TARGETS = (1.0, 3.0)  # ε
SEEDS = tuple(range(5))
MOST_TIMES = 3  # records drawn so often or more form the last group
NAMES = {POISSON: "Poisson", "random_allocation": "random allocation"}


def main(arguments: list[str]) -> int:
    """Train each target, sampling and seed, and write both files."""
    if "--page" in arguments:
        stored = recording(RECORDING)
    else:
        one_thread()
        shared = TrainingConfig.parse({"evaluations": 1, "audit": 0})
        left_out = {"seed", "sampling", "target_epsilon"}
        config = shared.model_dump(mode="json", exclude_none=True, exclude=left_out)
        rows = [
            measured(config, target, sampling)
            for target in TARGETS
            for sampling in NAMES
        ]
        stored = {"config": config, "rows": rows, **versions()}
        write(RECORDING, stored, indent=1)
    put(PAGE, PART, part(stored))
    return 0


def measured(config: dict[str, Any], target: float, sampling: str) -> dict[str, Any]:
    """Train with each seed; return the recorded results."""
    row: dict[str, Any] = {"target_epsilon": target, "sampling": sampling}
    runs = [TrainingConfig.parse(config | row | {"seed": seed}) for seed in SEEDS]
    row |= {
        "noise_multiplier": runs[0].plan.noise_multiplier,
        "steps": runs[0].plan.steps,
        "seeds": list(SEEDS),
        "test_accuracy": [[*train(run)][-1].data["test_accuracy"] for run in runs],
        "drawn_in_an_epoch": shares_drawn(runs[0]),
    }
    print(row, flush=True)
    return row


def shares_drawn(config: TrainingConfig) -> list[float]:
    """Return the shares of records drawn 0, 1, ... times in the first epoch."""
    plan = config.plan
    epoch_steps = -(-plan.sample_size // plan.expected_batch_size)
    batches = sampler_of(plan, config.seed).all_epochs()
    times = torch.zeros(plan.sample_size, dtype=torch.int64)
    for _ in range(epoch_steps):
        times[next(batches)] += 1
    groups = torch.bincount(times.clamp(max=MOST_TIMES), minlength=MOST_TIMES + 1)
    return [count / plan.sample_size for count in groups.tolist()]


def part(stored: dict[str, Any]) -> str:
    """Return the table of the page, and the differences in accuracy."""
    rows = stored["rows"]
    targets = dict.fromkeys(row["target_epsilon"] for row in rows)
    lines = [
        f"- ε = {target:g}: {difference(*_of(rows, target))}" for target in targets
    ]
    explanation = (
        "Accuracy with random allocation minus accuracy with Poisson sampling, in "
        "percentage points: mean of the seeds' differences ± its standard error."
    )
    return "\n\n".join([table(rows), explanation, "\n".join(lines)])


def _of(rows: list[dict[str, Any]], target: float) -> list[list[float]]:
    """Return the accuracies of Poisson sampling and of random allocation."""
    found = {x["sampling"]: x for x in rows if x["target_epsilon"] == target}
    return [found[name]["test_accuracy"] for name in NAMES]


def difference(poisson: list[float], allocated: list[float]) -> str:
    """Return the mean difference of the seeds, with its standard error, as text."""
    gains = [100 * (y - x) for x, y in zip(poisson, allocated, strict=True)]
    error = stdev(gains) / len(gains) ** 0.5
    gain = round(mean(gains), 2) + 0.0  # no minus before zero
    return f"{gain:+.2f} ± {error:.2f}"


def table(rows: list[dict[str, Any]]) -> str:
    """Return the table of the page."""
    times = [*map(str, range(MOST_TIMES)), f"{MOST_TIMES} or more"]
    drawn = [f"drawn {number} times" for number in times]
    header = ["ε", "sampling", "σ", "steps", "test accuracy, mean ± std", *drawn]
    cells = [
        [
            f"{row['target_epsilon']:g}",
            NAMES[row["sampling"]],
            need(row["noise_multiplier"]),
            str(row["steps"]),
            accuracy(row["test_accuracy"]),
            *(f"{100 * share:.1f}%" for share in row["drawn_in_an_epoch"]),
        ]
        for row in rows
    ]
    return markdown_table(header, cells)


def accuracy(values: list[float]) -> str:
    """Return the mean and the standard deviation of accuracies, in percent."""
    return f"{100 * mean(values):.2f}% ± {100 * stdev(values):.2f}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

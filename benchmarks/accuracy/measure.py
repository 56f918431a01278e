"""Test accuracy with five seeds, and the published accuracy at the same ε.

    python -m benchmarks accuracy

Writes the table into docs/explanation/comparison.md.
"""

from __future__ import annotations

import math
import time
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from scipy import stats

from benchmarks import record
from benchmarks.accuracy.cases import CASES, DELTA, Case
from benchmarks.accuracy.training import examples_of, train
from tools.marked_text import put, record_table

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "comparison.md"
SEEDS = range(5)
COVERAGE = 0.95


def measure(case: Case) -> dict[str, Any]:
    """Returns the accuracies of the seeds, their mean and its interval, and times."""
    before = time.process_time()
    examples, test = examples_of(case)
    prepared = time.process_time() - before
    settings = case.candidates[0]
    results = [train(case, settings, examples, test, seed) for seed in SEEDS]
    reached = [result.accuracy for result in results]
    quantile = float(stats.t.ppf((1 + COVERAGE) / 2, len(SEEDS) - 1))
    return {
        "dataset": case.dataset,
        "model": case.model,
        "source": case.source,
        "epsilon": max(result.epsilon for result in results),
        "batch_size": settings.batch_size,
        "steps": settings.steps,
        "published": case.published,
        "accuracies": reached,
        "mean": mean(reached),
        "half_width": quantile * stdev(reached) / math.sqrt(len(SEEDS)),
        "feature_seconds": prepared,
        "seconds": max(result.seconds for result in results),
    }


def table(results: dict[str, Any]) -> str:
    """Returns the results as text and a table in Markdown."""
    rows = record_table(
        results["rows"],
        ("data set", "{dataset}"),
        ("model", "{model}"),
        ("ε", "{epsilon:.4g}"),
        ("batch, steps", "{batch_size}, {steps}"),
        ("published", "{published:.1f}% ({source})"),
        ("here", "{mean:.2f}% ± {half_width:.2f}"),
        (
            "CPU time",
            lambda row: f"{row['feature_seconds']:.0f} + {row['seconds']:.0f} s",
        ),
    )
    return f"{record.described(results)}\n\n{rows}"


def main() -> None:
    """Measures every case, prints and stores the results, and writes the table."""
    rows = []
    for case in CASES:
        rows.append(measure(case))
        print(rows[-1], flush=True)
    print(record.write("accuracy", {"delta": DELTA, "rows": rows}))
    put(PAGE, "accuracy", table(record.read("accuracy")))

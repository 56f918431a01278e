"""Recording of the effect of several clipping bounds on a run's gradients.

    python -m dpsgd_explorer.web.hub.widgets.clip_histogram.record

Writes ``recorded.json`` into this folder.  The program repeats the run of a preset.
At eight steps, before the update, it measures the per-sample gradients of the batch: a
histogram of their norms, and for 25 values of C the norm of the mean clipped gradient
and its angle to the true mean.  C changes for this measurement only.  The measurements
have no noise, so they are not private.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from torch import nn

from dpsgd_explorer.experiments.presets import PRESETS
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.training import inputs
from dpsgd_explorer.training.dp_sgd import evaluate, predict
from dpsgd_explorer.training.timing import one_thread
from dpsgd_explorer.training.train_step import norm_counts
from tools.record.files import versions, write
from tools.record.measured_gradients import (
    Batch,
    clipped_sums,
    degrees,
    flat_gradients,
    replayed,
    short,
)

PRESET = "mnist-cnn"
STEPS = (1, 18, 23, 35, 52, 70, 140, 350)  # recorded by tools.record.runs, too
PER_DECADE = 6
BOUNDS = tuple(10 ** (i / PER_DECADE) for i in range(-12, 13))  # values of C
EDGES = tuple(10 ** (i / PER_DECADE) for i in range(-30, 16))  # of the bins of lengths
DIGITS = 5


def main() -> int:
    """Trains, measure, and write the file."""
    one_thread()
    preset = next(preset for preset in PRESETS if preset.slug == PRESET)
    config = TrainingConfig.parse(preset.config)
    stored = {
        "preset": PRESET,
        "config": config.model_dump(mode="json", exclude_none=True),
        **recorded(config),
        **versions(),
    }
    write("recorded", stored, folder=Path(__file__).parent)
    return 0


def recorded(config: TrainingConfig) -> dict[str, Any]:
    """Repeats a run and return its final accuracy and the measurements."""
    steps = []
    for step, model, batch in replayed(config):
        if step in STEPS:
            measurements = measured(model, batch, config.expected_batch_size)
            steps.append({"step": step, **measurements})
            print(step, measurements["angles"], flush=True)
    data = inputs.load(config.dataset, config.model, None)
    accuracy, _ = evaluate(predict(model, data.test), data.test_targets)
    return {
        "parameters": sum(p.numel() for p in model.parameters()),
        "test_accuracy": accuracy,
        "bounds": [float(f"{bound:.{DIGITS}g}") for bound in BOUNDS],
        "edges": [float(f"{edge:.{DIGITS}g}") for edge in EDGES],
        "steps": steps,
    }


def measured(model: nn.Module, batch: Batch, divisor: int) -> dict[str, Any]:
    """Returns lengths and angles of one batch's gradients.

    Args:
        model: Model before the step.
        batch: Inputs and targets of the drawn records, [B, ...] and [B].
        divisor: Expected batch size qN; means are sums divided by it.
    """
    gradients = flat_gradients(model, batch)
    lengths = gradients.norm(dim=1)
    true = gradients.sum(dim=0) / divisor
    means = clipped_sums(gradients, BOUNDS) / divisor
    return {
        "batch_size": len(lengths),
        "counts": norm_counts(lengths, list(EDGES)),
        "longest": short(lengths.max(), DIGITS),
        "true_length": short(true.norm(), DIGITS),
        "lengths": [short(mean.norm(), DIGITS) for mean in means],
        "angles": [round(degrees(mean, true), 2) for mean in means],
    }


if __name__ == "__main__":
    sys.exit(main())

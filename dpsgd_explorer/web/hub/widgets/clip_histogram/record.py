"""Measure what each clipping bound would do to the gradients of a recorded run.

    python -m dpsgd_explorer.web.hub.widgets.clip_histogram.record

Writes ``recorded.json`` beside this file.  The run of a preset is
repeated.  At eight of its steps, before the update, the true per-sample gradients of
the batch are measured: the number in each bin of lengths, and for 25 values of C the
length of the mean of the clipped gradients and its angle to the true mean.  C changes
for that measurement only; the run keeps its own.  All this is measured without noise:
it is not private.
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
    """Train, measure, and write the file."""
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
    """Train as the configuration says; return its end and what was measured."""
    steps = []
    for step, model, batch in replayed(config):
        if step in STEPS:
            found = measured(model, batch, config.expected_batch_size)
            steps.append({"step": step, **found})
            print(step, found["angles"], flush=True)
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
    """Return lengths and angles of one batch's gradients.

    Args:
        model: Its parameters are those before the step.
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

"""Measure what each clipping bound would do to the gradients of a recorded run.

    python -m tools.record_clipping_angles

Writes dpsgd_explorer/web/recorded/choices/clipping_angles.json.  The run of a preset is
repeated.  At eight of its steps, before the update, the true per-sample gradients of
the batch are measured: the number in each bin of lengths, and for 25 values of C the
length of the mean of the clipped gradients and its angle to the true mean.  C changes
for that measurement only; the run keeps its own.  All this is measured without noise:
it is not private.
"""

from __future__ import annotations

import copy
import json
import math
import sys
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dpsgd_explorer import __version__
from dpsgd_explorer.dp import PrivacyEngine, per_sample_gradients
from dpsgd_explorer.dp.noise.seeded import seeded_generator
from dpsgd_explorer.experiments.presets import PRESETS
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.training import inputs, models
from dpsgd_explorer.training.dp_sgd import evaluate
from dpsgd_explorer.training.timing import one_thread
from dpsgd_explorer.training.train_step import norm_counts

PATH = (
    Path(__file__).parents[1]
    / "dpsgd_explorer"
    / "web"
    / "recorded"
    / "choices"
    / "clipping_angles.json"
)
PRESET = "mnist-cnn"
STEPS = (1, 18, 23, 35, 52, 70, 140, 350)  # recorded by tools.record_runs, too
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
        "version": __version__,
        "torch": torch.__version__,
    }
    text = json.dumps(stored, allow_nan=False)
    PATH.write_text(text.replace('{"step":', '\n{"step":') + "\n", encoding="utf-8")
    return 0


def recorded(config: TrainingConfig) -> dict[str, Any]:
    """Train as the configuration says; return its end and what was measured."""
    data = inputs.load(config.dataset, config.model, None)
    weights = seeded_generator(config.seed, "initialisation").initial_seed()
    model = models.build(config.model, config.dataset, weights)
    engine = PrivacyEngine(
        model,
        plan=config.plan,
        max_grad_norm=config.max_grad_norm,
        clipping_fn=config.clipping_fn,
        noise="seeded",
        seed=config.seed,
    )
    optimizer = torch.optim.SGD(
        model.parameters(), lr=config.learning_rate, momentum=config.momentum
    )
    engine.attach(optimizer)
    measured = []
    records = torch.arange(config.sample_size)
    for step, (drawn,) in enumerate(engine.poisson_loader((records,)), start=1):
        batch = data.train[drawn], data.train_targets[drawn]
        if step in STEPS:
            found = measure(model, batch, config.expected_batch_size)
            measured.append({"step": step, **found})
            print(step, found["angles"], flush=True)
        F.cross_entropy(model(batch[0]), batch[1]).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
    accuracy, _ = evaluate(model, data.test, data.test_targets)
    return {
        "parameters": sum(p.numel() for p in model.parameters()),
        "test_accuracy": accuracy,
        "bounds": [float(f"{bound:.{DIGITS}g}") for bound in BOUNDS],
        "edges": [float(f"{edge:.{DIGITS}g}") for edge in EDGES],
        "steps": measured,
    }


def measure(
    model: nn.Module, batch: tuple[Tensor, Tensor], divisor: int
) -> dict[str, Any]:
    """Return lengths and angles of one batch's gradients, in a copy of the model.

    Args:
        model: Its parameters are those before the step.
        batch: Inputs and targets of the drawn records, [B, ...] and [B].
        divisor: Expected batch size qN; means are sums divided by it.
    """
    gradients = _flat(
        per_sample_gradients(copy.deepcopy(model), F.cross_entropy, *batch)
    )
    lengths = gradients.norm(dim=1)
    factors = (torch.tensor(BOUNDS)[:, None] / lengths).clamp(max=1.0)  # [bounds, B]
    clipped = (factors @ gradients).double() / divisor
    true = gradients.double().sum(dim=0) / divisor
    return {
        "batch_size": len(lengths),
        "counts": norm_counts(lengths, list(EDGES)),
        "longest": _short(lengths.max()),
        "true_length": _short(true.norm()),
        "lengths": [_short(length) for length in clipped.norm(dim=1)],
        "angles": [round(_degrees(row, true), 2) for row in clipped],
    }


def _flat(gradients: dict[str, Tensor]) -> Tensor:
    """Return all gradients of a sample as one row, [B, parameters]."""
    return torch.cat([rows.flatten(1) for rows in gradients.values()], dim=1).detach()


def _degrees(a: Tensor, b: Tensor) -> float:
    """Return the angle between two vectors; exact for small ones, too."""
    u, v = a / a.norm(), b / b.norm()
    return math.degrees(2 * math.atan2((u - v).norm(), (u + v).norm()))


def _short(value: Tensor) -> float:
    return float(f"{float(value):.{DIGITS}g}")


if __name__ == "__main__":
    sys.exit(main())

"""Recording of the norms of all gradients in one step of a recorded run.

    python -m dpsgd_explorer.web.hub.widgets.microscope.record

Writes ``recorded.json`` into this folder.  The program repeats the run of a preset up
to one step.  The file contains, for that step's batch, the norm of each
gradient, the norm of their sum, and for several bounds C the norm of the sum of the
clipped gradients and its angle to the true sum.  The values have no noise, so they are
not private.
"""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import nn

from dpsgd_explorer.experiments.presets import PRESETS
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.training.timing import one_thread
from tools.record.files import versions, write
from tools.record.measured_gradients import (
    Batch,
    clipped_sums,
    degrees,
    flat_gradients,
    replayed,
    short,
)

PRESET = next(preset for preset in PRESETS if preset.slug == "mnist-cnn")
STEP = 52  # tools.record.runs records this step, too
FACTORS = tuple(2 ** (i / 4) for i in range(-16, 17))  # of the run's own C
DIGITS = 4


def main() -> int:
    """Trains up to the step, measure its batch, and write the file."""
    one_thread()
    config = TrainingConfig.parse(PRESET.config)
    _, model, batch = next(islice(replayed(config), STEP - 1, None))
    stored = {
        "preset": PRESET.slug,
        "step": STEP,
        "config": config.model_dump(mode="json", exclude_none=True),
        "parameters": sum(p.numel() for p in model.parameters()),
        **measured(model, batch, [config.max_grad_norm * factor for factor in FACTORS]),
        **versions(),
    }
    write("recorded", stored, folder=Path(__file__).parent)
    return 0


def measured(model: nn.Module, batch: Batch, bounds: list[float]) -> dict[str, Any]:
    """Returns lengths and sums of one batch's gradients.

    Args:
        model: Model before the step.
        batch: Inputs and targets of the drawn records, [B, ...] and [B].
        bounds: Values of C.
    """
    gradients = flat_gradients(model, batch)
    true = gradients.sum(dim=0)
    sums = clipped_sums(gradients, bounds)
    lengths = gradients.norm(dim=1).sort(descending=True).values
    return {
        "lengths": [short(length, DIGITS) for length in lengths],
        "true": short(true.norm(), DIGITS),
        "bounds": [short(torch.tensor(bound), DIGITS) for bound in bounds],
        "clipped": [short(row.norm(), DIGITS) for row in sums],
        "degrees": [round(degrees(row, true), 2) for row in sums],
    }


if __name__ == "__main__":
    sys.exit(main())

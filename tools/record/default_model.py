"""Record the scattering features and scores of one digit, for the landing page.

    python -m tools.record.default_model

Writes dpsgd_explorer/web/recorded/choices/default_model.json: the first test picture,
its first-order scattering channels before normalization, and the scores of the linear
layer at the end of the recorded run.
"""

from __future__ import annotations

import sys
from collections import deque

import torch
from torch import Tensor

from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.training import inputs
from dpsgd_explorer.training.datasets import registry
from dpsgd_explorer.training.datasets.scattering import (
    CHANNELS,
    ORIENTATIONS,
    SCALES,
    Scattering,
)
from dpsgd_explorer.training.timing import one_thread
from tools.record.files import versions, write
from tools.record.measured_gradients import replayed
from tools.record.runs import STRICT

SHOWN = 0  # index of the test picture
FIRST_ORDER = 1 + SCALES * ORIENTATIONS  # channels: the average, then both scales


def main() -> int:
    """Repeat the run, compute the picture's features and scores, write the file."""
    one_thread()
    config = TrainingConfig.parse(STRICT.config)
    data = inputs.load(config.dataset, config.model, None)
    [(_, model, _)] = deque(replayed(config), maxlen=1)
    with torch.no_grad():
        right = (model(data.test).argmax(1) == data.test_targets).double().mean()
        [scores] = model(data.test[[SHOWN]])
    _, test = registry.load(config.dataset)
    picture = test.inputs[SHOWN]
    stored = {
        "preset": STRICT.slug,
        "number": SHOWN,
        "digit": int(data.test_targets[SHOWN]),
        "picture": (255 * picture[0]).round().int().tolist(),
        "channels": channels(picture),
        "all_channels": CHANNELS,
        "orientations": ORIENTATIONS,
        "scores": [round(float(score), 4) for score in scores],
        "test_accuracy": round(float(right), 6),
        **versions(),
    }
    write("choices/default_model", stored)
    return 0


def channels(picture: Tensor) -> list[list[list[float]]]:
    """Return the first-order scattering channels of a picture (1, H, H), rounded."""
    found = Scattering(picture.shape[-1]).channels(picture)[0, :FIRST_ORDER]
    return [
        [[round(float(value), 5) for value in row] for row in each] for each in found
    ]


if __name__ == "__main__":
    sys.exit(main())

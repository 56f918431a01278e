"""Record what the landing page's model makes of one digit.

    python -m tools.record_default_model

Writes dpsgd_explorer/web/recorded/choices/default_model.json: the first test picture,
its first-order scattering channels before they are normalised, and the scores of the
linear layer that the recorded run ends with.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import SGD

from dpsgd_explorer import __version__
from dpsgd_explorer.dp import PrivacyEngine
from dpsgd_explorer.dp.noise.seeded import seeded_generator
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.training import inputs, models
from dpsgd_explorer.training.datasets import registry
from dpsgd_explorer.training.datasets.scattering import (
    CHANNELS,
    ORIENTATIONS,
    SCALES,
    Scattering,
)
from dpsgd_explorer.training.timing import one_thread
from tools.record_runs import STRICT

PATH = (
    Path(__file__).parents[1]
    / "dpsgd_explorer"
    / "web"
    / "recorded"
    / "choices"
    / "default_model.json"
)
SHOWN = 0  # number of the test picture
FIRST_ORDER = 1 + SCALES * ORIENTATIONS  # channels: the average, then both scales


def main() -> int:
    """Train once more, read the picture, and write the file."""
    one_thread()
    config = TrainingConfig.parse(STRICT.config)
    data = inputs.load(config.dataset, config.model, None)
    model = _trained(config, data)
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
        "version": __version__,
        "torch": torch.__version__,
    }
    PATH.write_text(json.dumps(stored, allow_nan=False) + "\n", encoding="utf-8")
    return 0


def channels(picture: Tensor) -> list[list[list[float]]]:
    """Return the first-order scattering channels of a picture [1, H, H], rounded."""
    found = Scattering(picture.shape[-1]).channels(picture)[0, :FIRST_ORDER]
    return [
        [[round(float(value), 5) for value in row] for row in each] for each in found
    ]


def _trained(config: TrainingConfig, data: inputs.Inputs) -> nn.Module:
    """Return the model that the run ends with."""
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
    optimizer = SGD(
        model.parameters(), lr=config.learning_rate, momentum=config.momentum
    )
    engine.attach(optimizer)
    for (drawn,) in engine.poisson_loader((torch.arange(config.sample_size),)):
        loss = F.cross_entropy(model(data.train[drawn]), data.train_targets[drawn])
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
    engine.detach()
    return model


if __name__ == "__main__":
    sys.exit(main())

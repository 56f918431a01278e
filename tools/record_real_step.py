"""Record the lengths of every gradient in one step of a recorded run.

    python -m tools.record_real_step

Writes dpsgd_explorer/web/recorded/choices/real_step.json.  The run of a preset is
repeated up to one step.  Of that step's batch it holds the length of each gradient,
that of their sum, and for several bounds C the length of the sum of the clipped
gradients and its angle to the true one.  Nothing of that is noisy: it is not private.
"""

from __future__ import annotations

import json
import math
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import SGD

from dpsgd_explorer import __version__
from dpsgd_explorer.dp import PrivacyEngine, per_sample_gradients
from dpsgd_explorer.dp.noise.seeded import seeded_generator
from dpsgd_explorer.experiments.presets import PRESETS
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.training import inputs, models
from dpsgd_explorer.training.timing import one_thread

PATH = (
    Path(__file__).parents[1]
    / "dpsgd_explorer"
    / "web"
    / "recorded"
    / "choices"
    / "real_step.json"
)
PRESET = next(preset for preset in PRESETS if preset.slug == "mnist-cnn")
STEP = 52  # one that tools.record_runs records, too
FACTORS = tuple(2 ** (i / 4) for i in range(-16, 17))  # of the run's own C


def main() -> int:
    """Train up to the step, measure its batch, and write the file."""
    one_thread()
    config = TrainingConfig.parse(PRESET.config)
    model, batch = _before(config)
    stored = {
        "preset": PRESET.slug,
        "step": STEP,
        "config": config.model_dump(mode="json", exclude_none=True),
        "parameters": sum(p.numel() for p in model.parameters()),
        **measured(model, batch, [config.max_grad_norm * each for each in FACTORS]),
        "version": __version__,
        "torch": torch.__version__,
    }
    PATH.write_text(json.dumps(stored, allow_nan=False) + "\n", encoding="utf-8")
    return 0


def _before(config: TrainingConfig) -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    """Return the model before ``STEP`` and the batch of that step."""
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
    optimizer = SGD(
        model.parameters(), lr=config.learning_rate, momentum=config.momentum
    )
    engine.attach(optimizer)
    batches = iter(engine.poisson_loader((torch.arange(config.sample_size),)))
    for (drawn,) in islice(batches, STEP - 1):
        loss = F.cross_entropy(model(data.train[drawn]), data.train_targets[drawn])
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
    [drawn] = next(batches)
    engine.detach()
    return model, (data.train[drawn], data.train_targets[drawn])


def measured(
    model: nn.Module, batch: tuple[Tensor, Tensor], bounds: list[float]
) -> dict[str, Any]:
    """Return lengths and sums of one batch's gradients.

    Args:
        model: Its parameters are those before the step.
        batch: Inputs and targets of the drawn records, [B, ...] and [B].
        bounds: Values of C.
    """
    found = per_sample_gradients(model, F.cross_entropy, *batch)
    flat = torch.cat([rows.flatten(1) for rows in found.values()], dim=1).double()
    lengths = flat.norm(dim=1)  # [B]
    true = flat.sum(dim=0)
    factors = (torch.tensor(bounds)[:, None] / lengths).clamp(max=1.0)  # [bounds, B]
    clipped = factors.double() @ flat
    return {
        "lengths": [_short(each) for each in lengths.sort(descending=True).values],
        "true": _short(true.norm()),
        "bounds": [_short(torch.tensor(bound)) for bound in bounds],
        "clipped": [_short(row.norm()) for row in clipped],
        "degrees": [round(_degrees(row, true), 1) for row in clipped],
    }


def _degrees(a: Tensor, b: Tensor) -> float:
    u, v = a / a.norm(), b / b.norm()
    return math.degrees(2 * math.atan2((u - v).norm(), (u + v).norm()))


def _short(value: Tensor) -> float:
    return float(f"{float(value):.4g}")


if __name__ == "__main__":
    sys.exit(main())

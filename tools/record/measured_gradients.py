"""Per-sample gradients of a repeated run, for several recorders.

The gradients have no noise: they are not private.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import SGD

from dpsgd_explorer.dp import PrivacyEngine, choices, per_sample_gradients
from dpsgd_explorer.dp.noise.seeded import seeded_generator
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.training import inputs, models

Batch = tuple[Tensor, Tensor]


def replayed(config: TrainingConfig) -> Iterator[tuple[int, nn.Module, Batch]]:
    """Train with the configuration, and yield the state before each step.

    The state is the number of the step, starting at 1, the model, and the batch: inputs
    (B, ...) and targets (B,).  At the end the model is trained.
    """
    data = inputs.load(config.dataset, config.model, None)
    weights = seeded_generator(config.seed, "initialisation").initial_seed()
    model = models.build(config.model, config.dataset, weights)
    engine = PrivacyEngine(
        model,
        plan=config.plan,
        max_grad_norm=config.max_grad_norm,
        clipping_fn=cast(choices.ClippingFn, config.clipping_fn),
        noise="seeded",
        seed=config.seed,
    )
    optimizer = SGD(
        model.parameters(), lr=config.learning_rate, momentum=config.momentum
    )
    engine.attach(optimizer)
    records = torch.arange(config.sample_size)
    for step, (drawn,) in enumerate(
        engine.poisson_loader((records,)).all_epochs(), start=1
    ):
        batch = data.train[drawn], data.train_targets[drawn]
        yield step, model, batch
        loss = F.cross_entropy(model(batch[0]), batch[1])
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()


def flat_gradients(model: nn.Module, batch: Batch) -> Tensor:
    """Return each sample's gradient as a row, (B, parameters), in double precision.

    They are computed on a copy of the model, so that the run is not affected.
    """
    found = per_sample_gradients(copy.deepcopy(model), F.cross_entropy, *batch)
    return torch.cat([rows.flatten(1) for rows in found.values()], dim=1).double()


def clipped_sums(gradients: Tensor, bounds: Sequence[float]) -> Tensor:
    """Return the sum of the clipped gradients for each C, (bounds, parameters)."""
    limits = torch.tensor(bounds, dtype=torch.float64)[:, None]
    factors = (limits / gradients.norm(dim=1)).clamp(max=1.0)  # (bounds, B)
    sums: Tensor = factors @ gradients
    return sums


def degrees(a: Tensor, b: Tensor) -> float:
    """Return the angle between two vectors in degrees, accurate for small angles."""
    u, v = a / a.norm(), b / b.norm()
    return math.degrees(2 * math.atan2((u - v).norm(), (u + v).norm()))


def short(value: Tensor, digits: int) -> float:
    """Return a number, rounded to the given number of significant digits."""
    return float(f"{float(value):.{digits}g}")

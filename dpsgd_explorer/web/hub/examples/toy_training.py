"""DP-SGD on the toy problem: vectorised trainings with and without the odd record.

A record's gradient is r·(x, 1) with residual r, so clipping it to C is clipping r to
C/‖(x, 1)‖.  The start is θ = (0, 0) and the divisor the expected batch size qN of all
records, a constant in both worlds.

Notation: M trainings, N records.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dpsgd_explorer.web.hub.examples import toy_problem as toy

Floats = npt.NDArray[np.float64]
STEPS = 72
LEARNING_RATE = 0.25


def train(
    count: int,
    *,
    with_odd: bool,
    sample_rate: float,
    noise_multiplier: float,
    max_grad_norm: float,
    seed: int,
    steps: int = STEPS,
    records: Sequence[toy.Vector] | None = None,
) -> Floats:
    """Returns θ at the end of each training; [M, 2].

    Args:
        count: Number of trainings M.
        with_odd: If True, the data contain the odd record.
        sample_rate: Poisson inclusion probability q per step.
        noise_multiplier: Noise std over the clipping bound.
        max_grad_norm: Clipping bound C.
        seed: Seed of batches and noise; not for private training.
        steps: Number of steps.
        records: Records that replace the toy problem's; the last one is the odd record.
    """
    source = np.random.default_rng(seed)
    points = np.array(toy.records() if records is None else records)
    points = points if with_odd else points[:-1]
    inputs = np.column_stack([points[:, 0], np.ones(len(points))])  # [N, 2]
    limits = max_grad_norm / np.linalg.norm(inputs, axis=1)
    scale = noise_multiplier * max_grad_norm
    theta = np.zeros((count, 2))
    for _ in range(steps):
        drawn = source.random((count, len(points))) < sample_rate
        residuals = np.clip(theta @ inputs.T - points[:, 1], -limits, limits)
        noise = source.normal(0.0, scale, (count, 2))
        total = (residuals * drawn) @ inputs + noise
        theta -= LEARNING_RATE / (sample_rate * toy.SIZE) * total
    return theta


def best_axis(without: Floats, with_it: Floats) -> tuple[Floats, float]:
    """Returns the direction that separates two clouds best, and the midpoint on it.

    Fisher's linear discriminant for equal covariances; [M, 2] each.
    """
    spread = np.cov(without.T) + np.cov(with_it.T)
    axis = np.linalg.solve(spread, with_it.mean(axis=0) - without.mean(axis=0))
    middle = float((with_it.mean(axis=0) + without.mean(axis=0)) @ axis / 2)
    return axis, middle

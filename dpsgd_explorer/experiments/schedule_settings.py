"""The settings of schedules, for the vocabulary."""

from __future__ import annotations

from dpsgd_explorer.experiments.schedules import BOUND_SHAPES, SHAPES
from dpsgd_explorer.experiments.setting import Setting

SCHEDULES: dict[str, Setting] = {
    "learning_rate_schedule": Setting(
        label="Learning rate over the steps",
        help="How it changes from the first step to the last.",
        choices=SHAPES,
    ),
    "learning_rate_end": Setting(
        label="Learning rate at the end",
        help="As a multiple of the first step’s.",
        marks=(0.01, 0.1, 1, 10),
        step=0.01,
        gt=0,
        le=1000,
    ),
    "noise_schedule": Setting(
        label="Noise over the steps",
        help="How σ changes from the first step to the last.",
        choices=SHAPES,
    ),
    "noise_end": Setting(
        label="Noise at the end",
        help="As a multiple of the first step’s σ.",
        marks=(0.1, 0.3, 1, 3, 10),
        step=0.01,
        ge=0.1,
        le=10,
    ),
    "clipping_schedule": Setting(
        label="Clipping bound over the steps",
        help="How C changes from the first step to the last.",
        choices=BOUND_SHAPES,
    ),
    "clipping_end": Setting(
        label="Clipping bound at the end",
        help="As a multiple of the first step’s C.",
        marks=(0.1, 0.3, 1, 3, 10),
        step=0.01,
        ge=0.001,
        le=1000,
    ),
    "target_quantile": Setting(
        label="Share to keep whole",
        help="C moves until about this share of the gradients is within it.",
        marks=(0, 0.25, 0.5, 0.75, 1),
        step=0.05,
        gt=0,
        lt=1,
    ),
    "bound_rate": Setting(
        label="Speed of the clipping bound",
        help="Step size of the logarithm of C.",
        marks=(0.01, 0.1, 1),
        step=0.01,
        gt=0,
        le=10,
    ),
}

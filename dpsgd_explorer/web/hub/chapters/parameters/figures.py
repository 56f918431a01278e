"""Figures of the chapter on hyperparameters: the default run, with settings varied."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from dpsgd_explorer import accounting
from dpsgd_explorer.accounting import Phase
from dpsgd_explorer.experiments.catalogue import MODELS
from dpsgd_explorer.experiments.presets import PRESETS
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.hub.chapters.parameters.sweep import (
    bound_factor,
    close_points,
    good_noise,
    good_reaches,
    sweep_bounds,
    sweep_head,
    sweep_rows,
)
from dpsgd_explorer.web.hub.examples.classic_run import (
    ACCOUNTANT,
    BATCH_SIZE,
    DELTA,
    EPOCHS,
    SAMPLE_SIZE,
    classic_plan,
    epsilon_of_run,
)
from dpsgd_explorer.web.hub.examples.default_run import (
    default_plan,
    default_run,
    noise_for,
    scaled_bound,
)
from dpsgd_explorer.web.hub.widgets.clip_histogram import widget as histogram
from dpsgd_explorer.web.questions.comparison import Comparison
from dpsgd_explorer.web.questions.odds import Limits
from dpsgd_explorer.web.questions.rounding import (
    limit,
    nearest,
    need,
    percent,
    significant,
    whole,
)
from dpsgd_explorer.web.recorded.runs import RecordedRun, recorded

__all__ = [
    "PRESET_HEAD",
    "bound_and_rate",
    "bound_factor",
    "classic_plan",
    "close_points",
    "default_plan",
    "default_run",
    "epsilon_of_usual_noise",
    "good_noise",
    "good_reaches",
    "histogram_bound",
    "histogram_degrees",
    "histogram_step",
    "histogram_steps",
    "lengths",
    "longest_step",
    "noise_by_target",
    "noise_length_by_model",
    "parameter_count",
    "preset_batches",
    "presets",
    "scaled_bound",
    "smaller_batch",
    "sweep_bounds",
    "sweep_head",
    "sweep_rows",
    "targets",
]

TARGETS = (0.3, 1.0, 2.0, 3.0, 8.0)  # ε
LENGTHS = (75, 150, 300, 600, 1200, 2400)  # steps
LENGTH_TARGET = 3.0  # ε
PRESET_HEAD = ("preset", "ε", "qN", "steps", "σ", "C", "η", "test accuracy, %")
RATE_DIVISOR = 16  # of the learning rate, for the smaller batch

Rows = list[tuple[str, ...]]

thumbnail = histogram.picture
histogram_bound = histogram.bound
histogram_degrees = histogram.degrees
histogram_step = histogram.step
histogram_steps = histogram.steps


def noise_factor(
    epsilon: float, divided_by: float, expected_batch_size: int, steps: int
) -> float:
    """Returns the noise multiplier for a smaller target, over the one for ε."""
    large, small = (
        accounting.noise_multiplier(
            target_epsilon=target,
            sample_rate=expected_batch_size / default_run().sample_size,
            steps=steps,
            delta=DELTA,
            accountant=ACCOUNTANT,
        )
        for target in (epsilon, epsilon / divided_by)
    )
    return small / large


def noise_length(model: str, dataset: str) -> float:
    """Returns the typical norm of the noise on a gradient, in units of σC."""
    return math.sqrt(MODELS[model].parameters[dataset])


epsilon_of_usual_noise = Comparison(
    epsilon_of_run,
    "noise_multiplier",
    (0.5, 2.0),
    {
        "expected_batch_size": BATCH_SIZE,
        "epochs": EPOCHS,
        "sample_size": SAMPLE_SIZE,
    },
    limit,
)
noise_by_target = Comparison(
    noise_factor,
    "epsilon",
    (10.0, 1.0),
    {
        "divided_by": 10 / 3,
        "expected_batch_size": default_run().expected_batch_size,
        "steps": default_run().planned_steps,
    },
    partial(nearest, digits=2),
)
noise_length_by_model = Comparison(
    noise_length, "model", ("scattering_linear", "mlp"), {"dataset": "mnist"}, whole
)


def parameter_count(model: str) -> str:
    """Returns the number of trainable parameters of a model for MNIST."""
    return whole(MODELS[model].parameters["mnist"])


def longest_step() -> str:
    """Returns ηC/(1 - m) of the default run, the limit of its accumulated steps."""
    run = default_run()
    return significant(run.learning_rate * run.max_grad_norm / (1 - run.momentum))


def targets() -> Rows:
    """Returns ε, σ, and the attacker's limits: of the run, and of ε alone."""
    steps = default_plan().steps
    return [
        (f"{e:g}", need(noise_for(e, steps)), *_limits(e).values()) for e in TARGETS
    ]


def _limits(target: float) -> dict[str, str]:
    """Returns the limits of right calls about the default run with another target."""
    plan = default_plan()
    run = Phase(plan.sample_rate, noise_for(target, plan.steps), plan.steps)
    return Limits.of([run], target, default_run().delta).percents


def lengths() -> Rows:
    """Returns steps, epochs, σ and σ over the root of the steps, at one ε."""
    plan = default_plan()
    return [
        (
            whole(t),
            nearest(t * plan.sample_rate, 1),
            need(noise_for(LENGTH_TARGET, t)),
            nearest(noise_for(LENGTH_TARGET, t) / t**0.5, 3),
        )
        for t in LENGTHS
    ]


def presets() -> Rows:
    """Returns the settings of each preset, and the accuracy of its recorded run."""
    return [_preset(preset.label, recorded(preset.slug)) for preset in PRESETS]


def _preset(label: str, run: RecordedRun) -> tuple[str, ...]:
    config = run.config
    return (
        label,
        limit(run.summary["epsilon"]),
        f"{config.expected_batch_size:,}",
        f"{config.plan.steps:,}",
        need(config.plan.noise_multiplier),
        f"{config.max_grad_norm:g}",
        f"{config.learning_rate:g}",
        percent(run.summary["test_accuracy"]),
    )


def preset_batches() -> str:
    """Returns the range of the presets' expected batch sizes."""
    sizes = [
        TrainingConfig.parse(preset.config).expected_batch_size for preset in PRESETS
    ]
    return f"{min(sizes):,} to {max(sizes):,}"


def smaller_batch(expected_batch_size: int) -> dict[str, Any]:
    """Returns settings with a smaller batch, equal ε and equal number of gradients."""
    run = default_run()
    times = run.expected_batch_size / expected_batch_size
    return {
        "expected_batch_size": expected_batch_size,
        "steps": round(run.planned_steps * times),
        "learning_rate": run.learning_rate / RATE_DIVISOR,
    }


def bound_and_rate(settings: dict[str, Any]) -> str:
    """Returns clipping bound and learning rate in words."""
    bound, rate = settings["max_grad_norm"], settings["learning_rate"]
    return f"C = {significant(bound, 1)}, η = {significant(rate, 1)}"

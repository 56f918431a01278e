"""Tables of the chapters: the default run's settings varied, and the recorded runs."""

from __future__ import annotations

from functools import cache

from dpsgd_explorer.accounting import round_up
from dpsgd_explorer.experiments.presets import PRESETS
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.figures.default_run import noise_for
from dpsgd_explorer.web.questions.odds import percent_at_most
from dpsgd_explorer.web.recorded.runs import (
    RecordedRun,
    recorded,
    recorded_comparison,
)

TARGETS = (0.3, 1.0, 2.0, 3.0, 8.0)
LENGTHS = (75, 150, 300, 600, 1200, 2400)
LENGTH_TARGET = 3.0
ENGINE_HEAD = ("engine", "time", "memory", "largest difference")
PRESET_HEAD = ("preset", "ε", "qN", "steps", "σ", "C", "η", "test accuracy, %")

Rows = list[tuple[str, ...]]


@cache
def default() -> TrainingConfig:
    """Return the trainer's default run."""
    return TrainingConfig.parse({})


def noise_ratio(from_epsilon: float, to_epsilon: float) -> str:
    """Return how much more noise the second target asks for."""
    steps = default().plan.steps
    return f"{noise_for(to_epsilon, steps) / noise_for(from_epsilon, steps):.1f}"


def targets() -> Rows:
    """Return ε, σ and the attacker's best share of right guesses."""
    steps = default().plan.steps
    return [
        (
            f"{e:g}",
            round_up(noise_for(e, steps), 3),
            percent_at_most(e, default().delta),
        )
        for e in TARGETS
    ]


def lengths() -> Rows:
    """Return steps, epochs, σ and σ over the root of the steps, at one ε."""
    plan = default().plan
    return [
        (
            f"{t:,}",
            f"{t * plan.sample_rate:.1f}",
            round_up(noise_for(LENGTH_TARGET, t), 3),
            f"{noise_for(LENGTH_TARGET, t) / t**0.5:.3f}",
        )
        for t in LENGTHS
    ]


def presets() -> Rows:
    """Return the settings of each preset, and what its recorded run reached."""
    return [_preset(preset.label, recorded(preset.slug)) for preset in PRESETS]


def _preset(label: str, run: RecordedRun) -> tuple[str, ...]:
    config = run.config
    return (
        label,
        round_up(run.summary["epsilon"]),
        f"{config.expected_batch_size:,}",
        f"{config.plan.steps:,}",
        round_up(config.plan.noise_multiplier, 3),
        f"{config.max_grad_norm:g}",
        f"{config.learning_rate:g}",
        f"{100 * run.summary['test_accuracy']:.1f}",
    )


def engine_costs() -> Rows:
    """Return time and memory of each engine over an ordinary step, as recorded.

    The last column is the largest entry's difference from the first engine's clipped
    sum, over the largest entry.
    """
    _, events = recorded_comparison()
    measured = [e["data"] for e in events if e["kind"] == "evaluation"]
    base = measured[0]["peak_bytes"]
    return [
        (
            data["engine"],
            f"{data['ratio']:.1f} times",
            f"{data['peak_bytes'] / base:.1f} times",
            "" if data["difference"] is None else f"{data['difference']:.0e}",
        )
        for data in measured
    ]

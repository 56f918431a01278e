"""Tables of the chapters: the default run's settings varied, and the recorded runs."""

from __future__ import annotations

from functools import cache

from dpsgd_explorer.accounting import ACCOUNTANTS, Phase
from dpsgd_explorer.experiments.accountant_words import ACCURACY, LABELS
from dpsgd_explorer.experiments.presets import PRESETS
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.content import engines
from dpsgd_explorer.web.hub.examples.classic_run import classic_plan, growth
from dpsgd_explorer.web.hub.examples.default_run import noise_for
from dpsgd_explorer.web.labs.engines.view import recorded_comparison
from dpsgd_explorer.web.questions.odds import Limits
from dpsgd_explorer.web.questions.rounding import (
    limit,
    nearest,
    need,
    percent,
    significant,
    whole,
)
from dpsgd_explorer.web.recorded.runs import (
    RecordedRun,
    recorded,
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


def longest_step() -> str:
    """Return ηC/(1 - m) of the default run: how far its steps can add up."""
    run = default()
    return significant(run.learning_rate * run.max_grad_norm / (1 - run.momentum))


def counting_factor() -> str:
    """Return the largest over the smallest valid ε of the classic run."""
    end = growth((classic_plan().steps,))[0]
    return f"{float(f'{end.summed / end.sampled:.2g}'):,.0f}"


def sampling_factor() -> str:
    """Return by what sampling divides the ε of the classic run."""
    end = growth((classic_plan().steps,))[0]
    return f"{float(f'{end.composed / end.sampled:.2g}'):,.0f}"


def accountants() -> Rows:
    """Return each accountant's name, what kind its answer is, and what it is worth."""
    return [
        (LABELS[name], one.status, ACCURACY[name]) for name, one in ACCOUNTANTS.items()
    ]


def targets() -> Rows:
    """Return ε, σ, and the attacker's limits: of this run, and of ε alone."""
    return [
        (f"{e:g}", need(noise_for(e, default().plan.steps)), *_limits(e).values())
        for e in TARGETS
    ]


def _limits(target: float) -> dict[str, str]:
    """Return how often an attacker of the default run is right at most, by its ε."""
    plan = default().plan
    run = Phase(plan.sample_rate, noise_for(target, plan.steps), plan.steps)
    return Limits.of([run], target, default().delta).percents


def lengths() -> Rows:
    """Return steps, epochs, σ and σ over the root of the steps, at one ε."""
    plan = default().plan
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
    """Return the settings of each preset, and what its recorded run reached."""
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
    """Return the range of the presets' expected batch sizes."""
    sizes = [
        TrainingConfig.parse(preset.config).expected_batch_size for preset in PRESETS
    ]
    return f"{min(sizes):,} to {max(sizes):,}"


def engine_batch() -> int:
    """Return the records of a step whose costs ``engine_costs`` has."""
    return engines.batches()["transformer"]


def engine_costs() -> Rows:
    """Return time and memory of each engine over an ordinary step, as recorded.

    The last column is the largest entry's difference from the first engine's clipped
    sum, over the largest entry, in the recorded comparison of the lab.
    """
    _, events = recorded_comparison()
    apart = {
        e["data"]["engine"]: e["data"]["difference"]
        for e in events
        if e["kind"] == "evaluation"
    }
    return [
        (
            engine,
            f"{time:.2f} times",
            f"{memory:.2f} times",
            "" if apart[engine] is None else f"{apart[engine]:.0e}",
        )
        for engine, (time, memory) in engines.models()["transformer"].items()
        if engine in apart
    ]

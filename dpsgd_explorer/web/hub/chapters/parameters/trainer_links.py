"""Settings for the chapters' links into the trainer, made from its default run."""

from __future__ import annotations

from typing import Any

from dpsgd_explorer.web.hub.chapters.parameters.figures import default
from dpsgd_explorer.web.questions.rounding import significant

Settings = dict[str, Any]
SMALLER_STEP = 16  # a batch so much smaller stands a learning rate so much smaller


def scaled_bound(factor: float) -> Settings:
    """Return another clipping bound with a learning rate that leaves ηC as it is."""
    run = default()
    return {
        "target_epsilon": run.target_epsilon,
        "max_grad_norm": float(f"{run.max_grad_norm * factor:.6g}"),
        "learning_rate": float(f"{run.learning_rate / factor:.6g}"),
    }


def smaller_batch(expected_batch_size: int) -> Settings:
    """Return a smaller batch at the same ε, with as many gradients in all."""
    run = default()
    times = run.expected_batch_size / expected_batch_size
    return {
        "expected_batch_size": expected_batch_size,
        "steps": round(run.planned_steps * times),
        "learning_rate": run.learning_rate / SMALLER_STEP,
    }


def described(settings: Settings) -> str:
    """Return bound and learning rate in words."""
    bound, rate = settings["max_grad_norm"], settings["learning_rate"]
    return f"C = {significant(bound, 1)}, η = {significant(rate, 1)}"

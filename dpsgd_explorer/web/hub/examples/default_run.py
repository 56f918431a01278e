"""The trainer's default run, and variations of it."""

from __future__ import annotations

from functools import cache
from typing import Any

from dpsgd_explorer.accounting import Plan, noise_multiplier
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.recorded.runs import recorded

TWIN = "mnist-strict-twin"  # recorded without privacy, on the same batches


@cache
def default_run() -> TrainingConfig:
    """Returns the settings of the default run."""
    return TrainingConfig.parse({})


def default_plan() -> Plan:
    """Returns the plan of the default run."""
    return default_run().plan


@cache
def noise_for(target_epsilon: float, steps: int) -> float:
    """Returns the noise multiplier of the default run for another target or length."""
    plan = default_plan()
    return noise_multiplier(
        target_epsilon=target_epsilon,
        sample_rate=plan.sample_rate,
        steps=steps,
        delta=plan.delta,
        accountant=plan.accountant,
    )


def scaled_bound(factor: float) -> dict[str, Any]:
    """Returns settings with ``factor`` times the clipping bound C at the same ηC."""
    run = default_run()
    return {
        "target_epsilon": run.target_epsilon,
        "max_grad_norm": float(f"{run.max_grad_norm * factor:.6g}"),
        "learning_rate": float(f"{run.learning_rate / factor:.6g}"),
    }


def unclipped_learning_rate() -> float:
    """Returns the learning rate that suits gradients without clipping and noise."""
    return recorded(TWIN).config.learning_rate

"""The trainer's default run, as figures and tables vary it."""

from __future__ import annotations

from functools import cache

from dpsgd_explorer.accounting import Plan, noise_multiplier
from dpsgd_explorer.experiments.training_config import TrainingConfig


@cache
def default_plan() -> Plan:
    """Return the plan of the trainer's default run."""
    return TrainingConfig.parse({}).plan


@cache
def noise_for(target_epsilon: float, steps: int) -> float:
    """Return the noise multiplier of the default run for another target or length."""
    plan = default_plan()
    return noise_multiplier(
        target_epsilon=target_epsilon,
        sample_rate=plan.sample_rate,
        steps=steps,
        delta=plan.delta,
        accountant=plan.accountant,
    )

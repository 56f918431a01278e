"""Phases of a run: steps with equal noise, and the epsilon of several phases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from dpsgd_explorer.accounting import Phase, Plan
from dpsgd_explorer.accounting.registry import accountant_for
from dpsgd_explorer.accounting.schedules import Schedule, scheduled_phases


def phases_of(plan: Plan, steps: int, schedule: Schedule | None = None) -> list[Phase]:
    """Returns the first steps of a plan; steps with equal noise form a phase.

    Args:
        plan: Plan with the noise multiplier of the first step.
        steps: Number of steps.
        schedule: Factors of the noise multiplier; None if it is constant.
    """
    if schedule is None or not steps:
        return [plan.phase_of(steps)]
    setting = (plan.sample_rate, plan.noise_multiplier)
    factors = [schedule.factor(step, plan.steps) for step in range(steps)]
    return scheduled_phases(*setting, factors, plan.slots)


def epsilon_of(phases: Sequence[Phase], plan: Plan) -> float:
    """Returns the epsilon of all phases, by the plan's delta and accountant."""
    done = [phase for phase in phases if phase.steps] or phases[-1:]
    steps = sum(phase.steps for phase in done)
    accountant = accountant_for(plan.accountant)
    return float(accountant.epsilons(done, [steps], plan.delta)[0])


def as_data(phases: Sequence[Phase]) -> list[dict[str, Any]]:
    """Returns the phases as JSON values."""
    return [asdict(phase) for phase in phases]

"""Phases of a run: steps with equal noise, and the epsilon of several phases."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from dpsgd_explorer.accounting import Phase, Plan
from dpsgd_explorer.accounting.registry import accountant_for
from dpsgd_explorer.dp.noise.schedules import Schedule

MAX_HALVINGS = 40
#: Phases that are accounted one by one; more of them would take too long.
MAX_PHASES = 100
#: Precision of a calibrated noise multiplier, which errs towards more noise.
RELATIVE_PRECISION = 1e-4


def phases_of(plan: Plan, steps: int, schedule: Schedule | None = None) -> list[Phase]:
    """Return the first ``steps`` steps of a plan, those with equal noise together.

    Epsilon does not depend on the order.  Beyond MAX_PHASES different factors, factors
    close to each other count as the smallest among them, which bounds epsilon above.

    Args:
        plan: Its noise multiplier is that of the first step.
        steps: Number of steps.
        schedule: Factors of the noise multiplier; None for 1.
    """
    if schedule is None or not steps:
        return [Phase(plan.sample_rate, plan.noise_multiplier, steps)]
    factors = Counter(schedule.factor(step, plan.steps) for step in range(steps))
    return [
        Phase(plan.sample_rate, plan.noise_multiplier * factor, count)
        for factor, count in _grouped(factors).items()
    ]


def _grouped(factors: Counter[float]) -> Counter[float]:
    if len(factors) <= MAX_PHASES:
        return factors
    low, high = min(factors), max(factors)
    width = math.log(high / low) / (MAX_PHASES - 1)
    grouped: Counter[float] = Counter()
    smallest: dict[int, float] = {}
    for factor in sorted(factors):
        group = int(math.log(factor / low) / width)
        grouped[smallest.setdefault(group, factor)] += factors[factor]
    return grouped


def epsilon_of(phases: Sequence[Phase], plan: Plan) -> float:
    """Return the epsilon of all phases at a plan's delta, by its accountant."""
    done = [phase for phase in phases if phase.steps] or phases[-1:]
    steps = sum(phase.steps for phase in done)
    accountant = accountant_for(plan.accountant)
    return float(accountant.epsilons(done, [steps], plan.delta)[0])


def calibrated(plan: Plan, schedule: Schedule, target_epsilon: float) -> Plan:
    """Return the plan with the least noise whose scheduled steps meet the target.

    Args:
        plan: A plan whose steps meet the target with constant noise.
        schedule: Factors of the noise multiplier.
        target_epsilon: Epsilon of all planned steps.
    """
    factors = [schedule.factor(step, plan.steps) for step in range(plan.steps)]
    sigma = plan.noise_multiplier
    low, high = sigma / max(factors), sigma / min(factors)
    for _ in range(MAX_HALVINGS):
        if high - low <= RELATIVE_PRECISION * high:
            break
        middle = (low + high) / 2
        trial = dataclasses.replace(plan, noise_multiplier=middle)
        spent = epsilon_of(phases_of(trial, plan.steps, schedule), trial)
        low, high = (low, middle) if spent <= target_epsilon else (middle, high)
    return dataclasses.replace(plan, noise_multiplier=high)


def as_data(phases: Sequence[Phase]) -> list[dict[str, Any]]:
    """Return the phases as JSON values."""
    return [asdict(phase) for phase in phases]

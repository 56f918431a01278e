"""Several engines in a row on the same records: what they spend together."""

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

HALVINGS = 40
MOST_PHASES = 100  # that are accounted apart: bounds the time


def phases_of(plan: Plan, steps: int, schedule: Schedule | None = None) -> list[Phase]:
    """Return so many steps of a plan, those with equal noise together.

    What was spent does not depend on the order.  Of more than MOST_PHASES different
    factors, neighbouring ones count as the smallest among them: that spends no less.
    """
    if schedule is None or not steps:
        return [Phase(plan.sample_rate, plan.noise_multiplier, steps)]
    factors = Counter(schedule.factor(step, plan.steps) for step in range(steps))
    return [
        Phase(plan.sample_rate, plan.noise_multiplier * factor, count)
        for factor, count in _grouped(factors).items()
    ]


def _grouped(factors: Counter[float]) -> Counter[float]:
    if len(factors) <= MOST_PHASES:
        return factors
    low, high = min(factors), max(factors)
    width = math.log(high / low) / (MOST_PHASES - 1)
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
        plan: One whose steps meet it with constant noise.
        schedule: Of the noise.
        target_epsilon: Of all planned steps.
    """
    factors = [schedule.factor(step, plan.steps) for step in range(plan.steps)]
    sigma = plan.noise_multiplier
    low, high = sigma / max(factors), sigma / min(factors)
    for _ in range(HALVINGS):
        if high - low <= 1e-4 * high:
            break
        middle = (low + high) / 2
        own = dataclasses.replace(plan, noise_multiplier=middle)
        spent = epsilon_of(phases_of(own, plan.steps, schedule), own)
        low, high = (low, middle) if spent <= target_epsilon else (middle, high)
    return dataclasses.replace(plan, noise_multiplier=high)


def as_data(phases: Sequence[Phase]) -> list[dict[str, Any]]:
    """Return JSON values."""
    return [asdict(phase) for phase in phases]

"""Several engines in a row on the same records: what they spend together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from dpsgd_explorer.accounting import Phase, Plan
from dpsgd_explorer.accounting.table import accountant_for


def phase_of(plan: Plan, steps: int) -> Phase:
    """Return so many steps of a plan."""
    return Phase(plan.sample_rate, plan.noise_multiplier, steps)


def epsilon_of(phases: Sequence[Phase], plan: Plan) -> float:
    """Return the epsilon of all phases at a plan's delta, by its accountant."""
    done = [phase for phase in phases if phase.steps] or phases[-1:]
    steps = sum(phase.steps for phase in done)
    accountant = accountant_for(plan.accountant)
    return float(accountant.epsilons(done, [steps], plan.delta)[0])


def as_data(phases: Sequence[Phase]) -> list[dict[str, Any]]:
    """Return JSON values."""
    return [asdict(phase) for phase in phases]

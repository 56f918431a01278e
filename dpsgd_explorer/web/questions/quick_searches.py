"""Fast searches for noise and steps, for answers while a user drags a slider.

The bounds on ε are wider than those of a run's plan, but never below the true ε: the
noise is never too small, and the steps are never too many.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from dpsgd_explorer.accounting import Accountant, Phase, Plan
from dpsgd_explorer.accounting.calibration import steps_for
from dpsgd_explorer.accounting.core.neighboring_relation import (
    ADD_OR_REMOVE_ONE,
    NeighboringRelation,
)
from dpsgd_explorer.accounting.core.root_finding import most_steps
from dpsgd_explorer.accounting.core.validation import MAX_STEPS
from dpsgd_explorer.accounting.epochs import slots_of, steps_of
from dpsgd_explorer.accounting.exact.accountant import ExactAccountant
from dpsgd_explorer.accounting.exact.step_losses import DIRECTIONS
from dpsgd_explorer.accounting.plan import config_errors, noise_within
from dpsgd_explorer.accounting.target import Target
from dpsgd_explorer.experiments.training_config import TrainingConfig

FEW_FREQUENCIES = 1 << 9  # number of frequencies of a contour within few milliseconds
CACHED = 256


def quick_accountant(
    accountant: Accountant, relation: NeighboringRelation
) -> Accountant:
    """Return an accountant that answers within milliseconds, with wider bounds."""
    if not isinstance(accountant, ExactAccountant):
        return accountant
    return ExactAccountant(
        1, len(DIRECTIONS[relation]), FEW_FREQUENCIES, two_sided=False
    )


class QuickTarget(Target):
    """A target whose searches take milliseconds."""

    def searchers(self) -> tuple[Accountant, ...]:
        return (quick_accountant(self.accountant, self.relation),)

    def _least_allocated(
        self, phases: Callable[[float], list[Phase]], start: float, steepness: float
    ) -> float:
        return self.least_by(self.searchers()[0], phases, start, steepness)

    def least_by(
        self,
        searcher: Accountant,
        phases: Callable[[float], list[Phase]],
        start: float,
        steepness: float,
    ) -> float:
        return self._near(searcher, phases, start, steepness)


def preliminary_plan(config: TrainingConfig) -> Plan:
    """Return the plan of a run, with at least the noise of the run's final plan.

    Raises:
        ConfigError: no noise reaches the target.
    """
    arguments = config.plan_arguments
    if arguments["target_epsilon"] is None:
        return config.plan
    return _planned(**arguments)


@lru_cache(maxsize=CACHED)
def _planned(**arguments: Any) -> Plan:
    size, batch = arguments["sample_size"], arguments["expected_batch_size"]
    with config_errors():
        steps = arguments["steps"]
        slots = slots_of(size, batch, arguments["sampling"])
        if steps is None:
            sizes = (size, batch) if slots is None else (slots, 1)
            steps = steps_of(arguments["epochs"], *sizes)
        target = QuickTarget.of(
            arguments["target_epsilon"],
            arguments["delta"],
            arguments["accountant"],
            ADD_OR_REMOVE_ONE,
        )
        schedule, strategy = arguments["noise_schedule"], arguments["noise_correlation"]
        bands = 1 if strategy is None else strategy.bands
        noise = noise_within(target, batch / size, steps, schedule, slots, bands)
    solution = {"noise_multiplier": noise, "target_epsilon": None}
    return Plan.create(**arguments | solution)


def quick_steps_within(plan: Plan, epsilon: float) -> int:
    """Return a number of the plan's steps that spend at most epsilon.

    The number is never too large, and sometimes too small.
    """
    if plan.noise_schedule is not None:
        return plan.steps_within(epsilon)
    target = QuickTarget.of(epsilon, plan.delta, plan.accountant, ADD_OR_REMOVE_ONE)
    if plan.slots is not None:
        [searcher] = target.searchers()
        return most_steps(
            lambda steps: target.log_excess(searcher, plan.phases, steps),
            plan.slots,
            plan.steps,
        )
    run = Phase(plan.sample_rate * plan.bands, plan.noise_multiplier, MAX_STEPS)
    rounds = steps_for(target, run, -(-plan.steps // plan.bands))
    return min(plan.steps, rounds * plan.bands)

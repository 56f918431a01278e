"""A lower bound on ε of a run whose plan changed: each plan is also tested alone.

A test with one noise factor for the whole run can miss a single plan without noise.
Without noise, the scores of the plan's steps fall, both of members and of others, below
thresholds that were chosen for all steps.  So a fifth of the error goes to tests of the
plans, each with a separate noise factor, and the rest to the test of the whole run.

All tests hold together up to the error.  The exact composition of the plans, each with
its least refuted factor, is therefore a proven lower bound.  A plan without a refuted
factor counts as if it released nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from dpsgd_explorer.accounting.auditing.error_rates import Scores
from dpsgd_explorer.accounting.auditing.exact_family import (
    MAX_GROUPS,
    exact_family_epsilon,
    least_epsilon,
    refuted_factor,
    usual_thresholds,
)
from dpsgd_explorer.accounting.auditing.noise_groups import grouped
from dpsgd_explorer.accounting.core.neighboring_relation import NeighboringRelation
from dpsgd_explorer.accounting.core.phase import Phase

#: Number of plans that are tested separately; further plans are merged into the last.
MAX_PLANS = 8
#: Share of the error for the test of the whole run, if there are several plans.
WHOLE_RUN_SHARE = 0.8


class PlanScores(NamedTuple):
    """Scores of the canaries over the steps of one plan.

    Attributes:
        scores: Log-likelihood ratios over the steps.
        phases: The steps, with the promised noise.
    """

    scores: Scores
    phases: Sequence[Phase]


def whole_error(error: float, plans: Sequence[PlanScores]) -> float:
    """Returns the error probability for the test of the whole run."""
    return error * WHOLE_RUN_SHARE if len(plans) > 1 else error


def changed_run_epsilon(
    whole: PlanScores,
    thresholds: Sequence[float],
    plans: Sequence[PlanScores],
    delta: float,
    error: float,
    relation: NeighboringRelation,
) -> float:
    """Returns a lower bound on the ε of a run of one plan or several.

    Args:
        whole: Scores and steps of the whole run; a score is the sum of the plans'
            scores.
        thresholds: For the whole run, chosen before the scores were seen.
        plans: Scores and steps of each plan.  With fewer than two plans, the whole run
            takes all of the error.
        delta: δ, above 0.
        error: Probability that the bound is above the true ε.
        relation: Neighbouring relation of the canaries.
    """
    proven = exact_family_epsilon(
        whole.scores,
        thresholds,
        whole.phases,
        delta,
        whole_error(error, plans),
        relation,
    )
    if len(plans) < 2:
        return proven
    plan_error = error * (1 - WHOLE_RUN_SHARE) / len(plans)
    refuted: list[Phase] = []
    for scores, phases in plans:
        plan_thresholds = usual_thresholds(phases, relation)
        factor = refuted_factor(scores, plan_thresholds, phases, plan_error, relation)
        if factor < math.inf:
            refuted += [
                replace(phase, noise_multiplier=factor * phase.noise_multiplier)
                for phase in grouped(phases, MAX_GROUPS, max)
            ]
    return max(proven, least_epsilon(refuted, delta, relation) if refuted else 0.0)

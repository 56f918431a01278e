"""A lower bound on ε of a run whose plan changed: each plan is tested by itself too.

One factor of the noise for the whole run hides a plan that has its own: where noise is
missing, the scores of that plan's steps fall, of members and of others alike, below
thresholds that were laid for all steps.  So a fifth of the error goes to the plans,
each with a factor of its own, and the rest to the whole run as it is.  Refuted factors
hold together, and the exact composition of the plans, each with its least refuted
factor, is proven.  Plans of which nothing is refuted count as if they released nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from dpsgd_explorer.accounting.auditing.error_rates import Scores
from dpsgd_explorer.accounting.auditing.exact_family import (
    MOST_GROUPS,
    exact_family_epsilon,
    least_epsilon,
    refuted_factor,
    usual_thresholds,
)
from dpsgd_explorer.accounting.auditing.noise_groups import grouped
from dpsgd_explorer.accounting.core.neighboring_relation import NeighboringRelation
from dpsgd_explorer.accounting.core.phase import Phase

#: Plans that are tested by themselves; those after the last of them join it.
MOST_PLANS = 8
#: Of the error, for the run as a whole where there are several plans.
WHOLE_SHARE = 0.8


class PlanScores(NamedTuple):
    """What the canaries saw of one plan.

    Attributes:
        scores: Log-likelihood ratios over its steps.
        phases: Its steps, with the noise that was promised.
    """

    scores: Scores
    phases: Sequence[Phase]


def whole_error(error: float, plans: Sequence[PlanScores]) -> float:
    """Return the share of the error for the run as a whole."""
    return error * WHOLE_SHARE if len(plans) > 1 else error


def changed_run_epsilon(
    whole: PlanScores,
    thresholds: Sequence[float],
    plans: Sequence[PlanScores],
    delta: float,
    error: float,
    relation: NeighboringRelation,
) -> float:
    """Return a lower bound on the ε of a run of one plan or several.

    Args:
        whole: The run; its scores are the sums of those of the plans.
        thresholds: For the whole run, chosen before the scores were seen.
        plans: Its plans; with one or none, the whole run takes all of the error.
        delta: δ, above 0.
        error: Probability that the bound is above the true ε.
        relation: How the canaries' two worlds differ.
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
    alone = error * (1 - WHOLE_SHARE) / len(plans)
    refuted: list[Phase] = []
    for scores, phases in plans:
        laid = usual_thresholds(phases, relation)
        factor = refuted_factor(scores, laid, phases, alone, relation)
        if factor < math.inf:
            refuted += [
                replace(phase, noise_multiplier=factor * phase.noise_multiplier)
                for phase in grouped(phases, MOST_GROUPS, max)
            ]
    return max(proven, least_epsilon(refuted, delta, relation) if refuted else 0.0)

"""Questions that Rényi divergences answer: what choosing costs, and what is left.

Both answers are bounds.
"""

from __future__ import annotations

import math
from functools import partial

from flask import Blueprint, Response
from pydantic import Field

from dpsgd_explorer.accounting import Phase, RdpCurve, RenyiFilter, best_of_trials
from dpsgd_explorer.accounting.rdp.selection import MOST_SHAPE, MOST_TRIALS
from dpsgd_explorer.web.api.operation import operation, reply
from dpsgd_explorer.web.questions.privacy import Epsilon, PrivacyTerms
from dpsgd_explorer.web.questions.privacy_models import (
    RELATIONS,
    Delta,
    NoiseMultiplier,
    Question,
    Relation,
    SampleRate,
    SomeSteps,
    TargetEpsilon,
)

bp = Blueprint("renyi_api", __name__, url_prefix="/api/v1/privacy")
question = partial(operation, bp, "GET", lane="quick")

RENYI = "rdp"


class SelectionQuestion(Question):
    """What does the best of a random number of runs spend?"""

    sample_rate: SampleRate
    noise_multiplier: NoiseMultiplier
    steps: SomeSteps
    delta: Delta = 1e-5
    neighboring_relation: Relation = RELATIONS[0]
    mean_trials: float = Field(
        10, ge=1, le=MOST_TRIALS, description="Runs on average; their number is random."
    )
    shape: float = Field(
        1,
        ge=0,
        le=MOST_SHAPE,
        description="Of their number: 0 logarithmic, 1 geometric.",
    )
    poisson: bool = Field(False, description="Their number is Poisson instead.")


class SelectionAnswer(Epsilon):
    """ε of releasing the best run alone, and of one run, the question repeated."""

    trial_epsilon: float | None
    mean_trials: float
    shape: float
    poisson: bool
    sample_rate: float
    noise_multiplier: float
    steps: int


class FilterQuestion(Question):
    """How many such steps does a budget allow that is fixed beforehand?"""

    target_epsilon: TargetEpsilon
    sample_rate: SampleRate
    noise_multiplier: NoiseMultiplier
    delta: Delta = 1e-5
    neighboring_relation: Relation = RELATIONS[0]


class FilterAnswer(PrivacyTerms):
    """The budget, as a divergence of this order, and the steps that it allows."""

    target_epsilon: float
    order: float
    budget: float
    steps: int
    sample_rate: float
    noise_multiplier: float


@question("/selection", query=SelectionQuestion, answer=SelectionAnswer)
def selection(query: SelectionQuestion) -> Response:
    """Return what the best of a random number of runs spends; a bound."""
    run = Phase(query.sample_rate, query.noise_multiplier, query.steps)
    trial = RdpCurve.of([run], query.neighboring_relation)
    shape = math.inf if query.poisson else query.shape
    best = best_of_trials(trial, query.mean_trials, shape)
    terms = (RENYI, query.delta, query.neighboring_relation)
    single = Epsilon.spent(trial.epsilon(query.delta), *terms)
    repeated = query.model_dump(exclude={"delta", "neighboring_relation"})
    return reply(
        SelectionAnswer(
            **Epsilon.spent(best.epsilon(query.delta), *terms).model_dump(),
            **repeated,
            trial_epsilon=single.epsilon,
        )
    )


@question("/filter", query=FilterQuestion, answer=FilterAnswer)
def budget_filter(query: FilterQuestion) -> Response:
    """Return how many steps a budget allows whose steps may be chosen on the way."""
    relation = query.neighboring_relation
    budget = RenyiFilter(
        query.target_epsilon, query.delta, neighboring_relation=relation
    )
    rate, noise = query.sample_rate, query.noise_multiplier
    return reply(
        FilterAnswer(
            **PrivacyTerms.of(RENYI, query.delta, relation).model_dump(),
            target_epsilon=query.target_epsilon,
            order=budget.order,
            budget=budget.budget,
            steps=budget.steps_left(rate, noise),
            sample_rate=rate,
            noise_multiplier=noise,
        )
    )

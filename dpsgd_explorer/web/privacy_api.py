"""Questions to the accountants, and what a configuration would spend."""

from __future__ import annotations

from flask import Blueprint, Response, current_app

from dpsgd_explorer import accounting
from dpsgd_explorer.accounting import Plan
from dpsgd_explorer.training.config import TrainingConfig
from dpsgd_explorer.training.cost import check_cost
from dpsgd_explorer.web.operation import operation, reply
from dpsgd_explorer.web.privacy_answers import (
    Curve,
    CurveAnswer,
    CurveQuestion,
    Epsilon,
    EpsilonAnswer,
    EpsilonQuestion,
    NoiseQuestion,
    PlanAnswer,
    PlanQuestion,
    PrivacyTerms,
)

bp = Blueprint("privacy_api", __name__, url_prefix="/api/v1/privacy")


@operation(bp, "GET", "/epsilon", query=EpsilonQuestion, answer=EpsilonAnswer)
def epsilon(query: EpsilonQuestion) -> Response:
    """Return the epsilon that so many steps spend; null without noise."""
    return reply(_answer(query, query.noise_multiplier))


@operation(bp, "GET", "/noise_multiplier", query=NoiseQuestion, answer=EpsilonAnswer)
def noise_multiplier(query: NoiseQuestion) -> Response:
    """Return the least noise multiplier that stays within a target epsilon."""
    least = accounting.noise_multiplier(
        query.target_epsilon,
        query.sample_rate,
        query.steps,
        query.delta,
        accountant=query.accountant,
    )
    return reply(_answer(query, least))


@operation(bp, "GET", "/curve", query=CurveQuestion, answer=CurveAnswer)
def curve(query: CurveQuestion) -> Response:
    """Return epsilon along the steps of a run."""
    steps = Curve.steps_up_to(query.steps, query.points)
    spent = accounting.epsilon_curve(
        query.sample_rate,
        query.noise_multiplier,
        query.delta,
        steps=steps,
        accountant=query.accountant,
    )
    return reply(
        CurveAnswer(
            **PrivacyTerms.of(query.accountant, query.delta).model_dump(),
            **Curve.through(steps, spent).model_dump(),
            sample_rate=query.sample_rate,
            noise_multiplier=query.noise_multiplier,
        )
    )


@operation(bp, "GET", "/plan", query=PlanQuestion, answer=PlanAnswer)
def plan(query: PlanQuestion) -> Response:
    """Return what a configuration would spend and do, without running it."""
    check_cost(query, current_app.extensions["settings"].run_cost)
    return reply(planned(query, query.plan, query.points))


def _answer(query: EpsilonQuestion | NoiseQuestion, noise: float) -> EpsilonAnswer:
    spent = accounting.epsilon(
        query.sample_rate, noise, query.steps, query.delta, accountant=query.accountant
    )
    return EpsilonAnswer(
        **Epsilon.spent(spent, query.accountant, query.delta).model_dump(),
        sample_rate=query.sample_rate,
        noise_multiplier=noise,
        steps=query.steps,
    )


def planned(config: TrainingConfig, plan: Plan, points: int | None) -> PlanAnswer:
    """Return what a plan does and spends, with a curve of about so many points."""
    last_step = plan.steps
    if plan.is_private and config.stop_at_epsilon is not None:
        last_step = plan.steps_within(config.stop_at_epsilon)
    line = None
    if points is not None:
        steps = Curve.steps_up_to(last_step, points)
        line = Curve.through(steps, plan.epsilons(steps))
    return PlanAnswer(
        **Epsilon.spent(
            plan.epsilon(last_step), plan.accountant, plan.delta
        ).model_dump(),
        private=plan.is_private,
        sample_size=plan.sample_size,
        expected_batch_size=plan.expected_batch_size,
        sample_rate=plan.sample_rate,
        noise_multiplier=plan.noise_multiplier,
        steps=plan.steps,
        epochs=plan.steps * plan.sample_rate,
        last_step=last_step,
        curve=line,
    )

"""Queries to the accountants, and plans of configurations."""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import asdict, replace
from functools import partial

from flask import Blueprint, Response

from dpsgd_explorer import accounting
from dpsgd_explorer.accounting import Phase, RdpCurve, RenyiFilter, best_of_trials
from dpsgd_explorer.accounting.batches import (
    POISSON,
    QUICK,
    Batches,
    batches_interval,
)
from dpsgd_explorer.accounting.core.intervals import (
    APPROXIMATION,
    Interval,
    common_status,
)
from dpsgd_explorer.accounting.core.validation import MAX_STEPS
from dpsgd_explorer.accounting.queries import (
    delta_interval,
    epsilon_interval,
    epsilon_intervals,
    exceeds,
)
from dpsgd_explorer.accounting.registry import deciding_name
from dpsgd_explorer.accounting.sampling_schemes import RANDOM_ALLOCATION
from dpsgd_explorer.accounting.trade_off_curves import trade_off_intervals
from dpsgd_explorer.experiments.config import check_cost
from dpsgd_explorer.web.api.answer_cache import QUEUES
from dpsgd_explorer.web.api.operation import operation
from dpsgd_explorer.web.http.errors import HttpError
from dpsgd_explorer.web.http.services import settings
from dpsgd_explorer.web.questions.accountant_race import race
from dpsgd_explorer.web.questions.plan_preview import planned
from dpsgd_explorer.web.questions.privacy import (
    Curve,
    CurveAnswer,
    CurvesAnswer,
    Epsilon,
    EpsilonAnswer,
    FilterAnswer,
    PlanAnswer,
    PrivacyAnswer,
    PrivacyTerms,
    SelectionAnswer,
    TradeOffAnswer,
    epsilons_of_all,
    finite,
    rounded,
)
from dpsgd_explorer.web.questions.privacy_models import (
    CurveQuestion,
    CurvesQuestion,
    DeltaQuestion,
    EpsilonQuestion,
    FilterQuestion,
    NoiseQuestion,
    PlanQuestion,
    PrivacyQuestion,
    SampleRateQuestion,
    SelectionQuestion,
    StepsQuestion,
    TradeOffQuestion,
)

bp = Blueprint("privacy_api", __name__, url_prefix="/api/v1/privacy")
question = partial(operation, bp, "GET", queue="slow")
quick_question = partial(operation, bp, "GET", queue="quick")

RENYI = "rdp"
CLOSE = 1e-4  # relative distance of a value that is tried and should exceed the target


@quick_question("/epsilon")
def epsilon(query: EpsilonQuestion) -> EpsilonAnswer:
    """Returns ε of a run with the given noise and number of steps.

    Without noise there is no guarantee, and ``epsilon`` is null. ``sampling`` selects
    the way batches are drawn.
    """
    batches = query.batches
    found = batches_interval(
        query.run,
        query.delta,
        **query.query_arguments,
        batches=batches,
        allocation=QUICK,
    )
    answer = _answer(query, found, query.run, query.delta, found, batches)
    return EpsilonAnswer(**answer.model_dump() | asdict(batches))


@quick_question("/delta")
def delta(query: DeltaQuestion) -> PrivacyAnswer:
    """Returns δ of a run for a given ε.

    The run is given by its sample rate, noise multiplier and number of steps.
    """
    found = delta_interval([query.run], query.epsilon, **query.query_arguments)
    spent = replace(found, value=query.epsilon)
    return _answer(query, found, query.run, found.value, spent)


@question("/noise_multiplier")
def noise_multiplier(query: NoiseQuestion) -> PrivacyAnswer:
    """Returns the smallest noise multiplier within a target ε.

    The answer also contains the ε of a run with this noise multiplier.
    """
    least = accounting.noise_multiplier(**query.model_dump())
    run = Phase(query.sample_rate, least, query.steps)
    near = replace(run, noise_multiplier=least * (1 - CLOSE))
    return _solved(query, run, least, (near, near.noise_multiplier))


@question("/steps")
def steps(query: StepsQuestion) -> PrivacyAnswer:
    """Returns the largest number of steps within a target ε.

    The answer also contains the ε of a run with this number of steps.
    """
    most = accounting.steps(**query.model_dump())
    run = Phase(query.sample_rate, query.noise_multiplier, most)
    near = replace(run, steps=min(most + 1, MAX_STEPS))
    return _solved(query, run, most, (near, most))


@question("/sample_rate")
def sample_rate(query: SampleRateQuestion) -> PrivacyAnswer:
    """Returns the largest sample rate within a target ε.

    The answer also contains the ε of a run with this sample rate.
    """
    most = accounting.sample_rate(**query.model_dump())
    run = Phase(most, query.noise_multiplier, query.steps)
    near = replace(run, sample_rate=min(most * (1 + CLOSE), 1.0))
    return _solved(query, run, most, (near, near.sample_rate))


@question("/trade_off")
def trade_off(query: TradeOffQuestion) -> TradeOffAnswer:
    """Returns the largest true positive rate of any attack by false positive rate.

    The attack guesses whether one record was used. The trade-off curve holds for every
    attack, so the query has no ``delta``.
    """
    last = query.points - 1
    alarms = [(i / last) ** 2 for i in range(query.points)]  # denser near 0
    intervals = trade_off_intervals([query.run], alarms, **query.query_arguments)
    asked = query.model_dump(exclude={"points"})
    return TradeOffAnswer(
        **asked | {"accountant": deciding_name(query.accountant)},
        status=common_status(intervals),
        false_positive_rate=alarms,
        true_positive_rate=[x.value for x in intervals],
        lower=_bounds([x.lower for x in intervals]),
        upper=_bounds([x.upper for x in intervals]),
    )


@question("/curve")
def curve(query: CurveQuestion) -> CurveAnswer:
    """Returns ε along the steps of a run.

    The curve has at most ``points`` points, evenly spaced from step 0 to the last step.
    """
    steps = Curve.steps_up_to(query.steps, query.points)
    intervals = epsilon_intervals(
        [query.run], steps, query.delta, **query.query_arguments
    )
    status = common_status(intervals)
    terms = PrivacyTerms.of(
        query.accountant, query.delta, query.neighboring_relation, status
    )
    return CurveAnswer(
        **terms.model_dump(),
        **Curve.along(steps, intervals).model_dump(),
        lower=_bounds([x.lower for x in intervals]),
        upper=_bounds([x.upper for x in intervals]),
        sample_rate=query.sample_rate,
        noise_multiplier=query.noise_multiplier,
    )


@question("/curves")
def curves(query: CurvesQuestion) -> CurvesAnswer:
    """Returns ε along the steps of a run by every accountant.

    The steps are spaced geometrically. An accountant that does not apply to the run
    returns its ``reason``.
    """
    return race(query)


@quick_question("/selection")
def selection(query: SelectionQuestion) -> SelectionAnswer:
    """Returns ε of the best of a random number of runs.

    The number of runs is random with mean ``mean_trials``. The ε is an upper bound.
    """
    run = Phase(query.sample_rate, query.noise_multiplier, query.steps)
    trial = RdpCurve.of([run], query.neighboring_relation)
    shape = math.inf if query.poisson else query.shape
    best = best_of_trials(trial, mean_trials=query.mean_trials, shape=shape)
    terms = PrivacyTerms.of(RENYI, query.delta, query.neighboring_relation)
    return SelectionAnswer(
        **Epsilon.spent(best.epsilon(query.delta), terms).model_dump(),
        **query.model_dump(exclude={"delta", "neighboring_relation"}),
        trial_epsilon=rounded(trial.epsilon(query.delta)),
    )


@operation(bp, "GET", "/search", errors=(410,))
def search() -> Response:
    """Fails, because blind searches can no longer be launched.

    The cost of publishing only the best of several runs is at
    ``/api/v1/privacy/selection``.
    """
    raise HttpError(
        410,
        "gone",
        "Blind searches can no longer be launched, so they have no cost. Ask "
        "/api/v1/privacy/selection for the ε of the best of a random number of runs.",
    )


@quick_question("/filter")
def budget_filter(query: FilterQuestion) -> FilterAnswer:
    """Returns the number of steps within an ε budget for adaptive runs.

    Each step may depend on earlier releases, because a privacy filter counts it against
    the budget. The ε is an upper bound.
    """
    relation = query.neighboring_relation
    budget = RenyiFilter(
        query.target_epsilon, query.delta, neighboring_relation=relation
    )
    rate, noise = query.sample_rate, query.noise_multiplier
    return FilterAnswer(
        **PrivacyTerms.of(RENYI, query.delta, relation).model_dump(),
        target_epsilon=query.target_epsilon,
        order=budget.order,
        budget=budget.budget,
        steps=budget.steps_left(rate, noise),
        sample_rate=rate,
        noise_multiplier=noise,
    )


@operation(bp, "GET", "/plan", errors=(503,))
def plan(query: PlanQuestion) -> PlanAnswer:
    """Returns the steps, noise and ε of a configuration, without running it.

    The query is a configuration of a training run. ``points`` adds the curve of ε, and
    ``preliminary`` returns a quick bound.
    """
    check_cost(query, settings().run_cost)
    is_slow = query.private and query.sampling == RANDOM_ALLOCATION
    with QUEUES["slow"].turn() if is_slow else nullcontext():
        return planned(query, query.points, preliminary=query.preliminary)


def _solved(
    query: NoiseQuestion | StepsQuestion | SampleRateQuestion,
    run: Phase,
    value: float,
    near: tuple[Phase, float],
) -> PrivacyAnswer:
    """Return the answer to a question with a target, and what it really spends.

    ``near`` is a run that provably spends too much, so that it bounds the answer from
    the other side.  The status describes the answer: exact if it has both bounds, else
    a bound, even if ε at the answer is exact.
    """
    terms = (query.delta, query.accountant, query.neighboring_relation)
    spent = epsilon_interval([run], *terms)
    beyond, edge = near
    other = edge if exceeds([beyond], query.target_epsilon, *terms) else None
    own = None if spent.status == APPROXIMATION else value
    sides = (other, own) if isinstance(query, NoiseQuestion) else (own, other)
    status = spent.status
    if status != APPROXIMATION and beyond != run:  # the end of the domain is the answer
        status = "bound" if other is None else "exact"
    return _answer(query, Interval(value, *sides, status), run, query.delta, spent)


def _answer(
    query: PrivacyQuestion,
    found: Interval,
    run: Phase,
    delta: float,
    spent: Interval,
    batches: Batches = POISSON,
) -> PrivacyAnswer:
    relation = query.neighboring_relation
    terms = PrivacyTerms.of(query.accountant, delta, relation, found.status)
    return PrivacyAnswer(
        **Epsilon.spent(spent.value, terms).model_dump(),
        value=finite(found.value),
        lower=finite(found.lower),
        upper=finite(found.upper),
        sample_rate=run.sample_rate,
        noise_multiplier=run.noise_multiplier,
        steps=run.steps,
        epsilons=epsilons_of_all(query.accountant, run, delta, relation, batches),
    )


def _bounds(values: list[float | None]) -> list[float | None] | None:
    """Return the bounds as JSON can hold them, None where none is proven."""
    return None if None in values else [finite(value) for value in values]

"""A run's ε by another accountant, computed from its log."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from flask import Blueprint
from pydantic import BaseModel, ConfigDict, Field

from dpsgd_explorer.accounting import FilteredRun, Odometer, Phase, RenyiFilter
from dpsgd_explorer.accounting.core.intervals import common_status
from dpsgd_explorer.accounting.queries import epsilon_intervals
from dpsgd_explorer.accounting.spending import FILTER
from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments.events import NOT_PRIVATE
from dpsgd_explorer.runs.store.records import StoredEvent
from dpsgd_explorer.web.api.operation import operation
from dpsgd_explorer.web.http.services import run_store
from dpsgd_explorer.web.questions.epsilon_axis import EpsilonAxis, epsilon_axis
from dpsgd_explorer.web.questions.limits import check_size
from dpsgd_explorer.web.questions.privacy import (
    Curve,
    EnclosedEpsilon,
    Epsilon,
    PrivacyTerms,
)
from dpsgd_explorer.web.questions.privacy_models import (
    DEFAULT_ACCOUNTANT,
    AccountantName,
)
from dpsgd_explorer.web.questions.run_phases import (
    budget_of,
    phases_done,
    phases_of,
    releases_after,
)
from dpsgd_explorer.web.run_views.registry import VIEWS

bp = Blueprint("recount_api", __name__, url_prefix="/api/v1/runs/<run_id>")

REFUTED = (
    "run has no ε: its own audit proves that it spent more than promised, so the ε of "
    "its plan does not hold."
)
COUNTED = ("step", "evaluation", "end")


class RecountQuestion(BaseModel):
    """Query for ε of a run by an accountant; default: the accountant of its plan."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    accountant: AccountantName | None = Field(
        None, description="Method that computes ε. Left out: the method of the run."
    )


class RecountAnswer(EnclosedEpsilon):
    """ε of the run so far, and after each step of its log.

    For a run with a budget for changes, ``epsilon`` is the whole budget from the first
    step on, a bound. Its curve is the count of the privacy filter, which is not a
    guarantee. ``epsilon_axis`` is the axis of its charts.
    """

    curve: Curve
    epsilon_axis: EpsilonAxis


@operation(bp, "GET", "/epsilon")
def recount(run_id: str, query: RecountQuestion) -> RecountAnswer:
    """Returns ε of a run along its log by another accountant.

    A run with a budget for changes returns this budget, and no other accountant
    applies. A run that its own audit refuted has no ε and is rejected.
    """
    store = run_store()
    run = store.get(run_id)
    if run.is_refuted:
        raise ConfigError("run", REFUTED)
    log = [(event.kind, _data(event)) for event in store.events(run_id)]
    told = [data for kind, data in log if kind == "phase"]
    phases, delta = phases_of(told)
    steps = sorted({0, *(data["step"] for kind, data in log if kind in COUNTED)})
    budget = budget_of(told)
    if budget is not None:
        return _by_filter(budget, phases, steps, query.accountant)
    name = query.accountant or run.config.get("accountant", DEFAULT_ACCOUNTANT)
    releases = [releases_after(told, step) for step in steps]
    check_size(name, phases, answers=len(releases))
    intervals = epsilon_intervals(phases, releases, delta, name)
    own = VIEWS[run.kind].terms(run.config)
    terms = {
        **own.model_dump(),
        **EnclosedEpsilon.between(intervals[-1], name, delta).model_dump(),
        "neighboring_relation": own.neighboring_relation,
        "sampling": own.sampling,
        "status": own.status if own.status == NOT_PRIVATE else common_status(intervals),
    }
    return RecountAnswer(
        **terms,
        curve=Curve.along(steps, intervals),
        epsilon_axis=epsilon_axis(terms["epsilon"], "spent"),
    )


def _by_filter(
    budget: FilteredRun,
    phases: Sequence[Phase],
    steps: list[int],
    accountant: str | None,
) -> RecountAnswer:
    """Return the answer for a run with a privacy filter."""
    if accountant is not None:
        raise ConfigError(
            "accountant",
            f"accountant must be left out, got {accountant!r}: accountants cover only "
            "planned steps, but the steps of this run could be chosen from earlier "
            "results. Its ε is the budget of its filter.",
        )
    claimed = budget.epsilon if steps[-1] else 0.0
    spent = Epsilon.spent(claimed, PrivacyTerms.of_counter(FILTER, budget.delta))
    return RecountAnswer(
        **spent.model_dump(),
        lower=None,
        upper=spent.epsilon,
        curve=Curve.through(steps, budget.counted(phases, steps)),
        epsilon_axis=epsilon_axis(spent.epsilon, "spent"),
    )


def odometer_of(log: Iterable[StoredEvent], label: str) -> Odometer | None:
    """Return the odometer of a run's steps so far; None if it has no odometer.

    It has none without noise, with a learning rate from the data, and with a budget for
    changes: an odometer composes only steps that were fixed beforehand.
    """
    (left, told), odometer = _done(log), Odometer()
    if any(phase.get("status") == NOT_PRIVATE for phase in told) or budget_of(told):
        return None
    try:
        phases, _ = phases_of(told)
    except ConfigError:
        return None
    for phase in phases_done(phases, releases_after(told, left)):
        odometer.add_steps(phase, label)
    return odometer


def filter_of(log: Iterable[StoredEvent]) -> dict[str, Any] | None:
    """Return the budget of a run's filter and its spent part; None without a filter.

    ``epsilon`` at ``delta`` is guaranteed; divergences are Rényi divergences at
    ``order``.
    """
    left, told = _done(log)
    budget = budget_of(told)
    if budget is None:
        return None
    spent = budget.spent(phases_done(phases_of(told)[0], left))
    return {
        **asdict(budget),
        "status": RenyiFilter.status,
        "divergence_budget": budget.budget,
        "divergence_spent": spent,
    }


def _done(log: Iterable[StoredEvent]) -> tuple[int, list[dict[str, Any]]]:
    """Return the number of steps in a log, and the data of its phases."""
    left, told = 0, []
    for event in log:
        if event.kind == "phase":
            told.append(_data(event))
        elif event.kind in COUNTED:
            left = max(left, _data(event)["step"])
    return left, told


def _data(event: StoredEvent) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(event.data)
    return data
